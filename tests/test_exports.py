"""The public package is exactly what `__all__` says."""

import inspect

import idmatch


def test_all_is_what_is_exported() -> None:
    public = {
        name
        for name, value in vars(idmatch).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public == set(idmatch.__all__) - {"__version__"}
    assert sorted(idmatch.__all__) == idmatch.__all__


def test_no_module_is_public_but_those_of_extras() -> None:
    """Those are there once another test has imported them."""
    modules = [name for name, value in vars(idmatch).items() if inspect.ismodule(value)]
    assert {name for name in modules if not name.startswith("_")} <= {"dask", "spark"}


def is_method_or_property(member: object) -> bool:
    return inspect.isfunction(member) or isinstance(member, property)


def test_every_export_is_documented() -> None:
    for name in idmatch.__all__:
        exported = getattr(idmatch, name)
        if name != "__version__":
            assert exported.__doc__, name
        if inspect.isclass(exported):
            # The lint of missing docstrings does not see them: their modules are private.
            members = inspect.getmembers(exported, is_method_or_property)
            undocumented = [n for n, f in members if not n.startswith("_") and not f.__doc__]
            assert undocumented == [], name


def test_error_codes_are_distinct_and_errors_are_errors() -> None:
    errors = [
        error
        for error in vars(idmatch).values()
        if inspect.isclass(error) and issubclass(error, idmatch.Error)
    ]
    assert len({error.code for error in errors}) == len(errors) == 20
