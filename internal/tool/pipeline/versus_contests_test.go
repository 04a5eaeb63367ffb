package pipeline_test

// contest is one piece of work, said three times.
type contest struct {
	name      string
	args      string   // of execute_pipeline
	jqArgs    []string // a program and its files; a row at a time where jq can
	sql       string   // a query whose rows are JSON texts
	unordered bool     // the order of rows is up to each

	answer answer // ours
}

// script is what sqlite3 is told: to read the tables into memory, and to time and write the query.
func (c *contest) script() string { return sqlTables + c.sql + ";\n" }

const sqlTables = `
CREATE TABLE lines(line TEXT);
.mode ascii
.separator "\037" "\n"
.import flights.ndjson lines
CREATE TABLE flights(id INTEGER PRIMARY KEY, airline TEXT, origin TEXT, dest TEXT, price REAL, stops INTEGER, departure TEXT, phone TEXT);
INSERT INTO flights SELECT line->>'id', line->>'airline', line->>'origin', line->>'dest', line->>'price', line->>'stops', line->>'departure',
  line->>'phone' FROM lines;
DELETE FROM lines;
.mode list
.output sqlite.out
.timer on
`

// sqlRow is a whole row; sqlFlight is its beginning, before the departure.
const (
	sqlFlight = `SELECT json_object('id', id, 'airline', airline, 'origin', origin, 'dest', dest, 'price', price, 'stops', stops, `
	sqlRow    = sqlFlight + `'departure', departure, 'phone', phone) FROM flights`
)

func contests() []*contest {
	input := func(steps string) string {
		return `{"session_id":"s","input_ref":"cas://flights","pipeline":[` + steps + `]}`
	}
	return []*contest{
		{
			name:   "http_request",
			args:   `{"session_id":"s","pipeline":[{"step":"http_request","url":"https://api.example.com/flights"}]}`,
			jqArgs: []string{`.`, "flights.ndjson"},
			sql:    sqlRow,
		},
		{
			name:   "table_sort",
			args:   input(`{"step":"table_sort","field":"price"}`),
			jqArgs: []string{`sort_by(.price)[]`, "flights.json"},
			sql:    sqlRow + ` ORDER BY price, id`,
		},
		{
			name:   "table_filter",
			args:   input(`{"step":"table_filter","condition":{"and":[{"field":"price","op":"<","value":500},{"field":"airline","op":"in","value":["Delta","United"]}]}}`),
			jqArgs: []string{`select(.price < 500 and (.airline == "Delta" or .airline == "United"))`, "flights.ndjson"},
			sql:    sqlRow + ` WHERE price < 500 AND airline IN ('Delta', 'United')`,
		},
		{
			name:   "table_select",
			args:   input(`{"step":"table_select","fields":["id","airline","price as fare"]}`),
			jqArgs: []string{`{id, airline, fare: .price}`, "flights.ndjson"},
			sql:    `SELECT json_object('id', id, 'airline', airline, 'fare', price) FROM flights`,
		},
		{
			name:   "table_sort, top_k",
			args:   input(`{"step":"table_sort","field":"price"},{"step":"top_k","k":10}`),
			jqArgs: []string{`sort_by(.price)[:10][]`, "flights.json"},
			sql:    sqlRow + ` ORDER BY price, id LIMIT 10`,
		},
		{
			name: "groupby",
			args: input(`{"step":"groupby","by":["airline","stops"],"fields":["sum(price)","avg(price)","min(departure)","count()"]}`),
			jqArgs: []string{`group_by([.airline, .stops])[] | {airline: .[0].airline, stops: .[0].stops, sum_price: (map(.price) | add),
				avg_price: (map(.price) | add / length), min_departure: (map(.departure) | min), count: length}`, "flights.json"},
			sql: `SELECT json_object('airline', airline, 'stops', stops, 'sum_price', sum(price), 'avg_price', avg(price),
				'min_departure', min(departure), 'count', count(*)) FROM flights GROUP BY airline, stops`,
			unordered: true,
		},
		{
			name: "join",
			args: input(`{"step":"join","right":"cas://seats","on":"id","how":"left"}`),
			// jq 1.6 has INDEX for this, which copies the index for each of its rows: it would take hours.
			jqArgs: []string{"-n", "--slurpfile", "seats", "seats.ndjson", `($seats | map({(.id | tostring): .seats}) | add) as $s |
				inputs | . + {seats: $s[.id | tostring]}`, "flights.ndjson"},
			sql: `.timer off
.output
.mode ascii
.separator "\037" "\n"
.import seats.ndjson lines
.mode list
.output sqlite.out
CREATE TABLE seats(id INTEGER PRIMARY KEY, seats INTEGER);
INSERT INTO seats SELECT line->>'id', line->>'seats' FROM lines;
.timer on
` + sqlFlight + `'departure', departure, 'phone', phone, 'seats', seats) FROM flights LEFT JOIN seats USING (id)`,
		},
		{
			name:   "jq_transform",
			args:   input(`{"step":"jq_transform","query":".[] | select(.stops == 0) | {id, total: (.price * 2)}"}`),
			jqArgs: []string{`select(.stops == 0) | {id, total: (.price * 2)}`, "flights.ndjson"},
			sql:    `SELECT json_object('id', id, 'total', price * 2) FROM flights WHERE stops = 0`,
		},
		{
			name:   "regex_extract",
			args:   input(`{"step":"regex_extract","pattern":"(?P<area>\\d{3})-(?P<line>\\d{4})","field":"phone"}`),
			jqArgs: []string{`. + (.phone | capture("(?<area>\\d{3})-(?<line>\\d{4})"))`, "flights.ndjson"},
			// SQLite's regexp finds, but has no groups.
			sql: sqlFlight + `'departure', departure, 'phone', phone, 'area', substr(phone, 1, instr(phone, '-') - 1),
				'line', substr(phone, instr(phone, '-') + 1)) FROM flights`,
		},
		{
			name:   "parse_date",
			args:   input(`{"step":"parse_date","field":"departure","format":"%Y-%m-%d %H:%M:%S"}`),
			jqArgs: []string{`.departure |= (strptime("%Y-%m-%d %H:%M:%S") | mktime | todate)`, "flights.ndjson"},
			sql:    sqlFlight + `'departure', strftime('%Y-%m-%dT%H:%M:%SZ', departure), 'phone', phone) FROM flights`,
		},
	}
}
