"""Calls to servers: each ends in time, and its error says what to do.

The libraries may wait for good for a server that keeps a connection and does not answer.
"""

import re
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import Literal, TypeVar

# Longer than a failover of namenodes takes, and than the search for a datanode.
ANSWER_SECONDS = 60.0

Asked = Literal["namenode", "datanode"]

_T = TypeVar("_T")
# How hdfs-native shows the answer of a server: RPCError("class", "message and stack").
_REMOTE = re.compile(r'^\w+\("(?:[\w.$]+\.)?([\w$]+)", "(.*)', re.DOTALL)
_HTTP_STATUS = re.compile(r"^\d{3} .*(?= for url)")
# How the library requests shows why there is no connection.
_UNREACHED = re.compile(r"Caused by .*\[Errno -?\d+\] ([\w ]+)", re.DOTALL)
_DENIED = ("401", "403")
_STACK = re.compile(r"\\n|\n|\\t|\t")
_SHOWN_CHARACTERS = 200
_NO_NAMENODE = (
    "check the address, the network and the Hadoop configuration that HADOOP_CONF_DIR names"
)


class Refused(Exception):
    """A call that a server did not do. The text is the end of a sentence: why, and what to do."""


class TimedOut(Refused):
    """No server has answered in time. It may still do what it was asked."""


def answered(ask: Callable[[], _T], asked: Asked, *, waits_after_interrupt: bool = False) -> _T:
    """What a call returns. Raises Refused; FileNotFoundError and FileExistsError pass unchanged.

    The call runs on a thread of its own. When the time is over (TimedOut), and after Ctrl-C, the
    thread is abandoned. With `waits_after_interrupt`, Ctrl-C waits for the answer, so that nothing
    happens later. Cost: about 0.1 ms.
    """
    answer = Future[_T]()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - a panic of the library is no Exception
            answer.set_exception(error)

    try:
        Thread(target=run, name="idmatch-hdfs", daemon=True).start()
        error = answer.exception(ANSWER_SECONDS)
    except TimeoutError:
        raise TimedOut(_silent(asked)) from None
    except KeyboardInterrupt:
        if waits_after_interrupt and not _is_answered(answer):
            raise TimedOut("it was interrupted, and no namenode has answered") from None
        raise
    if error is None:
        return answer.result()
    if isinstance(error, (FileNotFoundError, FileExistsError, Refused)):
        raise error
    # The cause is left out: it has stack traces of the servers.
    raise Refused(reason(error, asked)) from None


def _is_answered(answer: Future[_T]) -> bool:
    """Waits for an answer. False when the time is over, and after another Ctrl-C."""
    try:
        return bool(wait([answer], ANSWER_SECONDS).done)
    except KeyboardInterrupt:
        return False


def reason(error: BaseException, asked: Asked) -> str:
    """The meaning of a library's exception: the end of a sentence, with what to do."""
    text = str(error)
    if (status := _HTTP_STATUS.match(text)) and not status[0].startswith(_DENIED):
        return f"the {asked} answers {status[0]}; check that it serves WebHDFS, and its log"
    remote = _REMOTE.match(text)
    name = remote[1] if remote else type(error).__name__
    said = status[0] if status else _shown(remote[2] if remote else text)
    if status or "AccessControl" in name or isinstance(error, PermissionError):
        return (
            f"permission is denied ({said.removeprefix('Permission denied: ')}); ask for the "
            "right, or set HADOOP_USER_NAME to a user who has it"
        )
    if "StandbyException" in text or "in state standby" in text:
        return (
            "its namenode is in standby; name the name service in place of one namenode, or make "
            "one active"
        )
    if "SafeMode" in text or "safe mode" in text:
        return "the namenode is in safe mode; try again when it has left it"
    if re.search("SASL|GSSAPI|Kerberos|krb5", text, re.IGNORECASE):
        return f"the login failed ({said}); get a ticket with kinit, and check the configuration"
    if remote and name not in ("FatalRPCError", "InvalidArgument"):
        return f"the {asked} answers {name}: {said}; check the path and the cluster"
    if asked == "datanode":
        return f"no datanode gives or takes its bytes ({said}); check the datanodes, and try again"
    return f"no namenode answers ({said}); {_NO_NAMENODE}"


def _silent(asked: Asked) -> str:
    if asked == "namenode":
        return f"no namenode has answered for {ANSWER_SECONDS:.0f} s; {_NO_NAMENODE}"
    return (
        f"no datanode has sent or taken a byte for {ANSWER_SECONDS:.0f} s; check the datanodes "
        "and the network, and try again"
    )


def _shown(text: str) -> str:
    """The first line of a message, without the stack trace of a server."""
    if unreached := _UNREACHED.search(text):
        return unreached[1]
    line = _STACK.split(text, maxsplit=1)[0].replace('\\"', '"').strip().removesuffix('")')
    return line.rstrip(". ")[:_SHOWN_CHARACTERS] or "without a reason"
