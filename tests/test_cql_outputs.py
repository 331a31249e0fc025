"""What commands write and say of matches and exports on servers."""

import idmatch
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import DAY, NOON, SMALL, Cli
from exported import ROWS, SINCE, UNTIL, selected, window


@pytest.mark.parametrize(
    ("limits", "told"),
    [("&in_flight=7", (7, False)), ("&max_requests_per_second=10000", (64, True))],
)
def test_all_requests_are_answered(
    cli: Cli, address: str, limits: str, told: tuple[int, bool]
) -> None:
    """--json has their counts, and -v a line for each."""
    with idmatch.open(address) as store:
        store.create_table("small", expected_rows=64_000).load(SMALL)
    (cli.home / "population.csv").write_text("id\na\nb\na\nnobody\n")
    match = ["match", f"{address}{limits}", "small", "population.csv"]
    said = cli(*match, "--json", "--explain").json()
    requests = idmatch.Requests(**said["requests"])
    asked = sum(step["requests"] for step in said["plan"])
    assert requests.asked == requests.answered == asked > 0
    # Each is answered by one page.
    assert requests.partitions_asked == requests.partitions_answered == asked
    assert (requests.in_flight, requests.is_rate_limited) == told
    assert sum(said["timings"].values()) == pytest.approx(said["seconds"], abs=1e-3)
    assert said["timings"]["waiting"] > 0
    assert said["verdict"].endswith(".")
    lines = [line.split() for line in cli(*match, "-v").out.splitlines()]
    shown = {words[0]: words[-1] for words in lines if words}
    assert set(idmatch.Requests._fields) <= shown.keys()
    assert shown["asked"] == shown["answered"] == f"{asked}"
    assert shown["partitions_asked"] == shown["partitions_answered"]
    assert (shown["in_flight"], shown["is_rate_limited"]) == (str(told[0]), str(int(told[1])))


def test_reasons_ask_servers_again(address: str) -> None:
    """For what is outside of the window."""
    with idmatch.open(address) as store:
        table = store.create_table("small", expected_rows=64_000)
        table.load(SMALL)
        population = pa.table({"id": ["a", "c", "nobody"]})
        result = table.match(population, since=NOON - 100 * DAY, unmatched=True)
        assert result.requests is not None
        before = result.requests.asked
        lost = result.unmatched().to_arrow()
        assert lost["reason"].to_pylist() == ["outside the window", "not in table"]
        requests = result.requests
    assert requests.asked == requests.answered > before


def test_an_export_has_the_rows_that_sql_selects(cli: Cli, address: str) -> None:
    with idmatch.open(address) as store:
        store.create_table("t", expected_rows=64_000).load(ROWS)
    for number, ends in enumerate([(SINCE, UNTIL), (SINCE, None), (None, UNTIL), (None, None)]):
        file = f"out{number}.parquet"
        ran = cli("export", address, "t", "-o", file, *window(*ends))
        assert ran.code == 0, ran.err
        tables = (pq.read_table(cli.home / file), selected(*ends))
        written, expected = (sorted(map(str, table.to_pylist())) for table in tables)
        assert written == expected
