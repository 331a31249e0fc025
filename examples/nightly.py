"""The nightly job: load what partners delivered, then translate a population for each of them."""

import argparse
import tempfile
from pathlib import Path

import idmatch
from idmatch._sample import generate


def main() -> None:
    """Makes deliveries, loads each into its table, and writes the matches of the donors."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="use little data")
    people = 2_000 if options.parse_args().small else 200_000
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "people")
        generate(str(data), people, 2, 7)
        run(data, Path(folder, "store"), Path(folder, "out"))


def run(data: Path, place: Path, out: Path) -> None:
    """One night. Running it again changes nothing: loads merge."""
    out.mkdir()
    with idmatch.open(place) as store:
        crm = store.create_table("crm")
        report = crm.load(data / "crm.parquet", columns={"id": "email", "partner_id": "cookie"})
        print(f"crm: {report.rows:,} rows, {report.rejected:,} rejected")
        cookies = crm.match(data / "donors.parquet")
        cookies.write_parquet(out / "cookies.parquet")
        print(f"donors with a cookie: {cookies.matched:,} of {cookies.population:,}")
        for delivery in sorted(data.glob("partner*.parquet")):
            table = store.create_table(delivery.stem, retention="13mo")
            report = table.load(delivery)
            # A result is an Arrow stream: the next match takes it as it is.
            found = table.match(cookies, column="partner_id", pick="latest")
            found.write_parquet(out / delivery.name, compression="zstd")
            print(f"{delivery.stem}: {report.rows:,} rows, {found.rate:.1%} of the cookies known")


if __name__ == "__main__":
    main()
