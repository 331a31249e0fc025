#!/usr/bin/env bash
# Deliveries of five partners, as they write them, into one store: a directory or servers.
#
#   examples/deliveries.sh                                   into ./store
#   examples/deliveries.sh "cql://127.0.0.1/deliveries?replication=1"
#
# The files are made up, in the working directory; so are the reports of the loads, as JSON.
set -euo pipefail
store=${1:-./store}
rows=${ROWS:-2000}
export LC_ALL=C

# Runs a command that may reject rows: exit code 3.
with_rejects() { "$@" || test $? = 3; }

echo "1. A CSV in latin-1 whose dates have the day first"
awk -v rows="$rows" 'BEGIN {
    print "Identit\351;partner;vu le"
    for (n = 0; n < rows; n++) printf "caf\351-%d;p%d;%02d/11/2026\n", n % 700, n % 900, n % 20 + 1
}' > november.csv
idmatch load "$store" november november.csv --encoding latin-1 --date-format '%d/%m/%Y' \
    --columns Identité,partner,'vu le' --expected-rows 100k --json > november.json

echo "2. A gzip without a header, with seconds since 1970 and NULL for what is missing"
awk -v rows="$rows" 'BEGIN {
    for (n = 0; n < rows; n++)
        printf "%s,%d,user-%d\n", (n % 10 ? "p" n % 300 : "NULL"), 1793700000 + n, n
}' | gzip > dump.csv.gz
with_rejects idmatch load "$store" dump dump.csv.gz --no-header --columns 3,1,2 --null NULL \
    --date-format s --max-rejects 15% --expected-rows 100k --json > dump.json

echo "3. JSON lines with a list of partner IDs"
awk -v rows="$rows" 'BEGIN {
    for (n = 0; n < rows; n++)
        printf "{\"cookie\": \"c%d\", \"uids\": [%d, %d], \"at\": \"2026-11-03 09:30:00\"}\n", n, n % 50, n % 70 + 100
}' > events.jsonl
idmatch load "$store" events events.jsonl --columns cookie,uids,at --tz Europe/Paris \
    --expected-rows 100k --json > events.json

echo "4. A full delivery, which takes the place of the one before"
for delivery in 1 2; do
    awk -v rows="$rows" -v delivery=$delivery 'BEGIN {
        print "id,partner_id,date"
        for (n = 0; n < rows; n++) printf "u%d,d%d-%d,20261103\n", n, delivery, n
    }' > full$delivery.csv
done
idmatch load "$store" full full1.csv --expected-rows 100k --json > full1.json
case $store in
    cql://*)
        idmatch load "$store" full.new full2.csv --expected-rows 100k --json > full2.json
        idmatch rename "$store" --swap full full.new
        idmatch drop "$store" full.new --yes
        ;;
    *) idmatch load "$store" full full2.csv --replace --json > full2.json ;;
esac

echo "5. A stream whose reader is killed, and goes on from what it has acknowledged"
awk -v rows="$rows" 'BEGIN {
    for (n = 0; n < rows; n++)
        printf "{\"id\": \"s%d\", \"partner_id\": \"q%d\", \"seen_at\": \"2026-11-03\"}\n", n, n % 40
}' > stream.jsonl
idmatch create "$store" stream --expected-rows 100k
mkfifo events.fifo
idmatch upsert "$store" stream - --ack < events.fifo > acknowledged.jsonl &
reader=$!
exec 3> events.fifo
head -n 600 stream.jsonl >&3
until grep --quiet '"through": 600}' acknowledged.jsonl; do sleep 0.1; done
kill -9 $reader
exec 3>&-
wait $reader || true
rm events.fifo
through=$(tail -n 1 acknowledged.jsonl | sed 's/.*"through": \([0-9]*\).*/\1/')
echo "   acknowledged through row $through; sending from row $((through + 1))"
tail -n +$((through + 1)) stream.jsonl |
    idmatch upsert "$store" stream - --ack --wait 30s > acknowledged2.jsonl

echo "What the store has"
idmatch tables "$store"
