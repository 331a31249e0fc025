#!/usr/bin/env bash
# A campaign's population, from e-mails to the IDs of a partner: a directory or servers.
#
#   examples/campaign.sh                                  from ./store
#   examples/campaign.sh "cql://127.0.0.1/campaign?replication=1"
#
# The files are made up, in the working directory; so are the reports, as JSON.
set -euo pipefail
store=${1:-./store}
rows=${ROWS:-3000}
export LC_ALL=C

echo "1. A CRM with the e-mail of each cookie, and a table of a partner"
awk -v rows="$rows" 'BEGIN {
    print "cookie,email,date"
    for (n = 0; n < rows; n++) printf "c%d,user%d@example.com,2026-%02d-01\n", n, n % 2000, n % 9 + 1
}' > crm.csv
awk -v rows="$rows" 'BEGIN {
    print "cookie,uid,date"
    for (n = 0; n < rows; n += 2) printf "c%d,dsp-%d,2026-%02d-%02d\n", n, n % 1200, n % 10 + 1, n % 28 + 1
}' > dsp.csv
idmatch load "$store" crm crm.csv --columns cookie,email --expected-rows 100k --json > crm.json
idmatch load "$store" dsp dsp.csv --columns cookie,uid --expected-rows 100k --json > dsp.json

echo "2. The population: e-mails with a campaign, some twice, some missing"
awk -v rows="$rows" 'BEGIN {
    print "email,campaign,note"
    for (n = 0; n < rows; n++) {
        email = n % 17 ? "user" n * 7 % 2600 "@example.com" : ""
        printf "%s,%s,\"row %d, as delivered\"\n", email, (n % 3 ? "spring" : "autumn sale"), n
    }
}' > population.csv

echo "3. From e-mail to cookie to the partner, as CSV for the partner; who was lost, and why"
idmatch match "$store" crm population.csv --column email --by partner-id --since 2026-03-01 \
    --then dsp,pick=latest --carry campaign,note --with-hops \
    -o audience.csv.gz --unmatched lost.csv --json > match.json

echo "4. The match rate of each campaign: all rows, and those that are not among the lost"
awk -F, 'FNR == 1 { next } NR == FNR { all[$2]++; next } { lost[$3]++ } END {
    for (campaign in all) printf "%s,%d,%d\n", campaign, all[campaign], all[campaign] - lost[campaign]
}' population.csv lost.csv | sort > rates.csv
cat rates.csv

echo "5. A folder for each campaign, and what the partner has, by days"
idmatch match "$store" crm population.csv --column email --by partner-id --carry campaign \
    -o campaigns --partition-by campaign --max-rows-per-file 500 --json > campaigns.json
idmatch export "$store" dsp -o dsp.export --partition-by seen_at --json > export.json
