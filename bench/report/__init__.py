"""Pages of results: each part of a page is a template, filled from the JSON of one benchmark.

`__main__.py` says which parts there are, `pages.py` fills and places them, `targets.py` compares
figures with their targets, `charts.py` draws. The prose is in `templates/`; what all parts share is
in `templates/shared.md`.
"""
