"""Makes a sample, loads it, matches its population with every partner, and looks two IDs up.

    python scripts/demo.py DIRECTORY [PEOPLE]

The sample's own truth.json says what must come out; any difference ends the demo with exit 1.
"""

import json
import shutil
import sys
from pathlib import Path

import idmatch
import pyarrow as pa
from idmatch import _sample

PARTNERS = 3
SEED = 7


def main(directory: str, people: int = 1_000_000) -> int:
    """Runs the demo in a directory, which is made anew; 1 when an answer is wrong."""
    home = Path(directory)
    shutil.rmtree(home, ignore_errors=True)
    print(f"Making a sample of {people:,} people in {home} ...")
    made = _sample.generate(home, people, PARTNERS, SEED)
    truth = json.loads((home / "truth.json").read_text())
    print(f"  {sum(made.rows_by_file.values()):,} rows in {len(made.rows_by_file)} Parquet files\n")

    with idmatch.open(home / "store") as store:
        print("Loading ...")
        crm = store.create_table("crm")
        report = crm.load(home / "crm.parquet", columns=["email", "cookie"])
        print(f"  crm: {report.rows:,} rows in {report.seconds:.1f} s")
        partners = {}
        for name in truth["partners"]:
            partners[name] = store.create_table(name)
            report = partners[name].load(home / f"{name}.parquet", columns=["cookie"])
            print(f"  {name}: {report.rows:,} rows in {report.seconds:.1f} s")

        print("\nThe cookies of the donors, and what each partner calls them:\n")
        wanted = {"crm": truth["crm"]}
        cookies = crm.match(home / "donors.parquet")
        results = {"crm": cookies}
        for name, partner in partners.items():
            wanted[name] = truth["partners"][name]["windows"]["all"]
            results[name] = partner.match(cookies, column="partner_id")
        show_matches(results)

        print()
        name, partner = next(iter(partners.items()))
        lookups = truth["partners"][name]["lookups"]
        cookie = lookups["id"]["id"]
        shared = lookups["partner_id"]["partner_id"]
        show_lookup(f"{name}, id {cookie}", partner.partner_ids(cookie, limit=5))
        show_lookup(f"{name}, partner ID {shared}", partner.ids(shared, limit=5))

    got = {
        name: {"population": r.population, "matched": r.matched, "rows": r.rows}
        for name, r in results.items()
    }
    if got != wanted:
        print(f"These answers are wrong:\n  {got}\nThe right ones are:\n  {wanted}")
        return 1
    print("All figures are those of truth.json.")
    print(f"To go on:\n  .venv/bin/idmatch tables {home}/store\n  .venv/bin/idmatch --help")
    return 0


def show_matches(results: dict[str, idmatch.MatchResult]) -> None:
    """A line for each result."""
    print(f"{'table':10}{'population':>12}{'matched':>12}{'rate':>9}{'rows':>12}{'seconds':>9}")
    for name, r in results.items():
        figures = f"{r.population:12,}{r.matched:12,}{r.rate:9.1%}{r.rows:12,}{r.seconds:9.2f}"
        print(f"{name:10}{figures}")


def show_lookup(what: str, answers: pa.Table) -> None:
    """The answers to one question, newest first."""
    print(f"The newest of {what}:")
    side, _ = answers.column_names
    for answer in answers.to_pylist():
        print(f"  {answer['seen_at']:%Y-%m-%d %H:%M:%S}  {answer[side]}")
    print()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
