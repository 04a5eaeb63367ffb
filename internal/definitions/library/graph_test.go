package library_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
)

// flights is the definition of the example in the requirements.
const flights = `{"description":"Watch flights","nodes":[
	{"id":"fetch_flights","type":"task","config":{"action":"pipeline","pipeline":[{"step":"http_request","url":"https://flights.example/search"}]}}],"edges":[]}`

// priceDrop adds a condition and an e-mail to a workflow.
const priceDrop = `[
        {
          "op": "add",
          "path": "/nodes/-",
          "value": {
            "id": "price_check",
            "type": "condition",
            "expr": "price < 500"
          }
        },
        {
          "op": "add",
          "path": "/nodes/-",
          "value": {
            "id": "send_email",
            "type": "task",
            "config": {"action": "email", "subject": "Price drop!"}
          }
        },
        {
          "op": "add",
          "path": "/edges/-",
          "value": {"from": "fetch_flights", "to": "price_check"}
        },
        {
          "op": "add",
          "path": "/edges/-",
          "value": {"from": "price_check", "to": "send_email", "condition": "true"}
        }
      ]`

func mustNormalize(t testing.TB, raw string) json.RawMessage {
	t.Helper()
	out, err := library.Normalize(json.RawMessage(raw))
	require.NoError(t, err)
	return out
}

func mustParse(t testing.TB, raw string) []library.Operation {
	t.Helper()
	ops, err := library.ParseOperations(json.RawMessage(raw))
	require.NoError(t, err)
	return ops
}

func TestRequirementsExamples(t *testing.T) {
	after, err := library.Apply(mustNormalize(t, flights), mustParse(t, priceDrop))
	require.NoError(t, err)
	require.JSONEq(t, `{"description":"Watch flights","nodes":[
		{"id":"fetch_flights","type":"task","config":{"action":"pipeline","pipeline":[{"step":"http_request","url":"https://flights.example/search"}]}},
		{"id":"price_check","type":"condition","expr":"price < 500"},
		{"id":"send_email","type":"task","config":{"action":"email","subject":"Price drop!"}}],
		"edges":[{"from":"fetch_flights","to":"price_check"},{"from":"price_check","to":"send_email","condition":"true"}]}`, string(after))
	again, err := library.Normalize(after)
	require.NoError(t, err)
	require.Equal(t, string(after), string(again))

	after, err = library.Apply(mustNormalize(t, strings.ReplaceAll(flights, "fetch_flights", "process_data")), mustParse(t, `[
	  {"op": "add", "path": "/nodes/-", "value": {"id": "send_email", "type": "task", "name": "Send Notification", "config": {"action": "email", "to": "ops@example.com"}}},
	  {"op": "add", "path": "/edges/-", "value": {"from": "process_data", "to": "send_email"}}]`))
	require.NoError(t, err)
	require.Contains(t, string(after), `"Send Notification"`)
}

func TestValidDefinitions(t *testing.T) {
	files, err := os.ReadDir("testdata/good")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(f.Name(), func(t *testing.T) {
			raw, err := os.ReadFile("testdata/good/" + f.Name())
			require.NoError(t, err)
			d, faults := library.Parse(raw)
			require.Empty(t, faults)
			canonical, err := library.Canonical(&d)
			require.NoError(t, err)
			require.JSONEq(t, string(raw), string(canonical))
			require.Regexp(t, `^sha256:[0-9a-f]{64}$`, library.Hash(canonical))
		})
	}
}

func TestEqualDefinitionsHaveOneCanonicalForm(t *testing.T) {
	a := mustNormalize(t, `{"nodes":[{"type":"task","id":"a","config":{"url":"https://x.example/<b>&","action":"webhook","body":{"n":12345678901234567890.10,"b":1}}}],"edges":[]}`)
	b := mustNormalize(t, ` {"edges":null,"schedules":[],"description":"","nodes":[ {"id":"a","config":{"action":"webhook","body":{"b":1,"n":12345678901234567890.10},"url":"https:\/\/x.example\/<b>\u0026"},"type":"task"} ]}`)
	require.Equal(t, string(a), string(b))
	require.Equal(t, library.Hash(a), library.Hash(b))
	require.Contains(t, string(a), `12345678901234567890.10`)
	require.NotEqual(t, library.Hash(a), library.Hash(mustNormalize(t, flights)))
	require.Equal(t, string(mustNormalize(t, `{"nodes":[`+conditionNode+`],"edges":[]}`)), string(mustNormalize(t, `{"nodes":[`+conditionNode+`]}`)))
}

// node returns a definition with one node.
func node(members string) string { return `{"nodes":[{"id":"a",` + members + `}],"edges":[]}` }

func task(config string) string { return node(`"type":"task","config":` + config) }

// graphText returns a definition with edges such as "a>b" or "a?>b:true". A name in capitals is a timer, a name with ? a condition.
func graphText(edges string, also ...string) string {
	var nodes, links []string
	seen := map[string]bool{}
	add := func(name string) string {
		id := strings.TrimSuffix(name, "?")
		if seen[id] {
			return id
		}
		seen[id] = true
		kind := `"type":"task","config":{"action":"email"}`
		switch {
		case id != name:
			kind = `"type":"condition","expr":"true"`
		case strings.ToUpper(id) == id:
			kind = `"type":"timer","config":{"duration":"1h"}`
		}
		nodes = append(nodes, fmt.Sprintf(`{"id":%q,%s}`, id, kind))
		return id
	}
	for _, name := range also {
		add(name)
	}
	for edge := range strings.FieldsSeq(edges) {
		ends, condition, _ := strings.Cut(edge, ":")
		from, to, _ := strings.Cut(ends, ">")
		links = append(links, fmt.Sprintf(`{"from":%q,"to":%q,"condition":%q}`, add(from), add(to), condition))
	}
	return `{"nodes":[` + strings.Join(nodes, ",") + `],"edges":[` + strings.Join(links, ",") + `]}`
}

func schedule(members string) string {
	return `{"nodes":[` + conditionNode + `],"schedules":[{"id":"s",` + members + `}]}`
}

const conditionNode = `{"id":"a","type":"condition","expr":"true"}`

func TestInvalidDefinitions(t *testing.T) {
	many := func(n int, one string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(one, i)
		}
		return strings.Join(parts, ",")
	}
	cases := map[string]struct{ in, want string }{
		"not JSON":            {`{"nodes":`, "malformed JSON"},
		"an array":            {`[]`, "want an object"},
		"unknown member":      {`{"nodes":[],"steps":[]}`, "steps: unknown field"},
		"member twice":        {`{"nodes":[],"nodes":[]}`, "nodes: is given twice"},
		"too large":           {`{"description":"` + strings.Repeat("x", library.MaxDocument) + `"}`, "at most 262144"},
		"too deep":            {task(`{"action":"webhook","url":"https://x.example","body":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`), "deeper than 64"},
		"description":         {`{"description":"` + strings.Repeat("x", 5000) + `"}`, "description: is 5000 bytes, at most 4000"},
		"many nodes":          {`{"nodes":[` + many(257, `{"id":"n%d","type":"task"}`) + `]}`, "nodes: are 257, at most 256"},
		"many edges":          {`{"edges":[` + many(1025, `{"from":"n%d","to":"b"}`) + `]}`, "edges: are 1025, at most 1024"},
		"many schedules":      {`{"schedules":[` + many(33, `{"id":"n%d","interval_sec":60}`) + `]}`, "schedules: are 33, at most 32"},
		"unknown node member": {node(`"type":"task","kind":"x"`), "nodes[0].kind: unknown field"},
		"no id":               {`{"nodes":[{"type":"condition","expr":"true"}]}`, "nodes[0].id: is required"},
		"bad id":              {`{"nodes":[{"id":"a b","type":"condition","expr":"true"}]}`, `nodes[0].id: "a b" is not 1 to 128 of`},
		"long id":             {`{"nodes":[{"id":"` + strings.Repeat("a", 129) + `","type":"condition","expr":"true"}]}`, "nodes[0].id: "},
		"id twice":            {`{"nodes":[{"id":"a","type":"condition","expr":"true"},{"id":"a","type":"condition","expr":"true"}]}`, `nodes[1].id: "a" is the id of nodes[0] already`},
		"long name":           {node(`"type":"condition","expr":"true","name":"` + strings.Repeat("x", 201) + `"`), "nodes[0].name: is 201 bytes"},
		"no type":             {node(`"name":"x"`), "nodes[0].type: is required: want one of task, agent, condition, timer"},
		"unknown type":        {node(`"type":"loop"`), `nodes[0].type: want one of task, agent, condition, timer, got "loop"`},
		"config no object":    {node(`"type":"task","config":[]`), "nodes[0].config: want an object"},
		"config of text":      {node(`"type":"task","config":"x"`), "nodes[0].config: want an object"},
		"expr of a task":      {node(`"type":"task","expr":"true","config":{"action":"email"}`), "nodes[0].expr: is for nodes of type condition"},
		"no expr":             {node(`"type":"condition"`), "nodes[0].expr: is required"},
		"bad expr":            {node(`"type":"condition","expr":"price <"`), "nodes[0].expr: 1:8: Syntax error"},
		"no bool":             {node(`"type":"condition","expr":"1"`), "nodes[0].expr: is of type int, want true or false"},
		"condition config":    {node(`"type":"condition","expr":"true","config":{"x":1}`), "nodes[0].config.x: unknown field"},
		"no action":           {node(`"type":"task"`), "nodes[0].config.action: is required: want one of email, webhook, pipeline"},
		"null action":         {task(`{"action":null}`), "nodes[0].config.action: is required"},
		"action of a number":  {task(`{"action":1}`), "nodes[0].config.action: want a string"},
		"slack":               {task(`{"action":"slack","channel":"#x"}`), `nodes[0].config.action: want one of email, webhook, pipeline, got "slack"`},

		"email member":      {task(`{"action":"email","recipient":"x"}`), "nodes[0].config.recipient: unknown field"},
		"email to":          {task(`{"action":"email","to":"nobody"}`), `nodes[0].config.to[0]: "nobody" is no address`},
		"email to line":     {task(`{"action":"email","to":"a@b.example\nBcc: c@d.example"}`), "nodes[0].config.to[0]: "},
		"email to number":   {task(`{"action":"email","to":7}`), "nodes[0].config.to: "},
		"email cc":          {task(`{"action":"email","cc":["a@b.example","c"]}`), `nodes[0].config.cc[1]: "c" is no address`},
		"email many":        {task(`{"action":"email","to":[` + many(51, `"a%d@b.example"`) + `]}`), "nodes[0].config.to: are 51, at most 50"},
		"email subject":     {task(`{"action":"email","subject":"a\nBcc: x"}`), "nodes[0].config.subject: is more than one line"},
		"long subject":      {task(`{"action":"email","subject":"` + strings.Repeat("x", 1001) + `"}`), "nodes[0].config.subject: is 1001 bytes"},
		"subject template":  {task(`{"action":"email","subject":"{{ price + }}"}`), "nodes[0].config.subject: {{ price + }}: 1:"},
		"body template":     {task(`{"action":"email","body":"{{ price"}`), "nodes[0].config.body: {{ is not closed by }}"},
		"attempts":          {task(`{"action":"email","retries":{"max_attempts":0}}`), "nodes[0].config.retries.max_attempts: want 1 to 20, got 0"},
		"attempts interval": {task(`{"action":"email","retries":{"max_attempts":1,"interval_sec":-1}}`), "nodes[0].config.retries.interval_sec: want 1 to 60, got -1"},
		"attempts unsaid":   {task(`{"action":"webhook","url":"https://x.example","retries":{"interval_sec":5}}`), "nodes[0].config.retries.max_attempts: want 1 to 20, got 0"},
		"attempts pause":    {task(`{"action":"email","retries":{"max_attempts":2,"interval_sec":61}}`), "nodes[0].config.retries.interval_sec: want 1 to 60, got 61"},
		"attempts pauses":   {task(`{"action":"email","retries":{"max_attempts":2,"max_interval_sec":61}}`), "nodes[0].config.retries.max_interval_sec: want 1 to 60, got 61"},
		"timeout long":      {task(`{"action":"webhook","url":"https://x.example","timeout_sec":481}`), "nodes[0].config.timeout_sec: want 1 to 480, got 481"},
		"timeout steps":     {task(`{"action":"pipeline","pipeline":[{"step":"top_k","k":1}],"timeout_sec":481}`), "nodes[0].config.timeout_sec: want 1 to 480, got 481"},
		"timeout of turns":  {node(`"type":"agent","config":{"agent":"a","message":"x","timeout_sec":86401}`), "nodes[0].config.timeout_sec: want 1 to 86400, got 86401"},
		"nothing":           {`{}`, "nodes: is empty"},
		"no nodes":          {`{"nodes":[],"edges":[],"schedules":[{"id":"s","interval_sec":60}]}`, "nodes: is empty"},
		"attempts member":   {task(`{"action":"email","retries":{"times":3}}`), "nodes[0].config.retries.times: unknown field"},
		"timeout":           {task(`{"action":"email","timeout_sec":-5}`), "nodes[0].config.timeout_sec: want 1 to 480, got -5"},

		"webhook no url":     {task(`{"action":"webhook"}`), "nodes[0].config.url: is required"},
		"webhook file":       {task(`{"action":"webhook","url":"file:///etc/passwd"}`), "nodes[0].config.url: want an http or https URL with a host"},
		"webhook user":       {task(`{"action":"webhook","url":"https://u:p@x.example"}`), "nodes[0].config.url: must not hold credentials"},
		"webhook host":       {task(`{"action":"webhook","url":"https://api.{{host}}/x"}`), "nodes[0].config.url: the host must not be made of an expression"},
		"webhook only host":  {task(`{"action":"webhook","url":"https://{{host}}/x"}`), "nodes[0].config.url: want an http or https URL with a host"},
		"webhook long":       {task(`{"action":"webhook","url":"https://x.example/` + strings.Repeat("x", 5000) + `"}`), "nodes[0].config.url: is 5018 bytes"},
		"webhook method":     {task(`{"action":"webhook","url":"https://x.example","method":"post"}`), `nodes[0].config.method: want one of POST, GET, PUT, PATCH, DELETE, got "post"`},
		"webhook auth":       {task(`{"action":"webhook","url":"https://x.example","auth":"Bearer x"}`), "nodes[0].config.auth: want the name of an auth profile"},
		"webhook credential": {task(`{"action":"webhook","url":"https://x.example","headers":{"authorization":"Bearer x"}}`), "nodes[0].config.headers.authorization: must not hold credentials"},
		"webhook host name":  {task(`{"action":"webhook","url":"https://x.example","headers":{"Idempotency-Key":"x"}}`), "nodes[0].config.headers.Idempotency-Key: is the runtime's"},
		"webhook header":     {task(`{"action":"webhook","url":"https://x.example","headers":{"X A":"x"}}`), "nodes[0].config.headers.X A: is no name of a header"},
		"webhook value":      {task(`{"action":"webhook","url":"https://x.example","headers":{"X-A":"x\r\nY: z"}}`), "nodes[0].config.headers.X-A: has characters"},
		"webhook headers":    {task(`{"action":"webhook","url":"https://x.example","headers":{` + many(33, `"X-%d":"x"`) + `}}`), "nodes[0].config.headers: are 33"},
		"webhook body":       {task(`{"action":"webhook","url":"https://x.example","body":"{{"}`), "nodes[0].config.body: {{ is not closed by }}"},

		"pipeline none":  {task(`{"action":"pipeline"}`), "nodes[0].config.pipeline: has no steps"},
		"pipeline many":  {task(`{"action":"pipeline","pipeline":[` + many(51, `{"step":"top_k","k":%d}`) + `]}`), "nodes[0].config.pipeline: has 51 steps"},
		"pipeline step":  {task(`{"action":"pipeline","pipeline":[{"url":"x"}]}`), "nodes[0].config.pipeline[0].step: is required"},
		"pipeline null":  {task(`{"action":"pipeline","pipeline":[null]}`), "nodes[0].config.pipeline[0]: want an object"},
		"pipeline other": {task(`{"action":"pipeline","steps":[]}`), "nodes[0].config.steps: unknown field"},

		"agent none":    {node(`"type":"agent","config":{"message":"x"}`), "nodes[0].config.agent: is required"},
		"agent name":    {node(`"type":"agent","config":{"agent":"a b","message":"x"}`), `nodes[0].config.agent: "a b" is no name of an agent`},
		"agent message": {node(`"type":"agent","config":{"agent":"a","message":" "}`), "nodes[0].config.message: is required"},
		"agent text":    {node(`"type":"agent","config":{"agent":"a","message":"{{}}"}`), "nodes[0].config.message: {{}}: is empty"},
		"agent session": {node(`"type":"agent","config":{"agent":"a","message":"x","session":"{{"}`), "nodes[0].config.session: "},
		"agent schema":  {node(`"type":"agent","config":{"agent":"a","message":"x","output_schema":[]}`), "nodes[0].config.output_schema: want an object"},
		"agent tools":   {node(`"type":"agent","config":{"agent":"a","message":"x","tools":[]}`), "nodes[0].config.tools: unknown field"},
		"timer none":    {node(`"type":"timer"`), `nodes[0].config.duration: want 1s to 8784h`},
		"timer words":   {node(`"type":"timer","config":{"duration":"a day"}`), `nodes[0].config.duration: want 1s to 8784h, such as "90s" or "24h", got "a day"`},
		"timer short":   {node(`"type":"timer","config":{"duration":"999ms"}`), "nodes[0].config.duration: "},
		"timer long":    {node(`"type":"timer","config":{"duration":"8785h"}`), "nodes[0].config.duration: "},
		"timer number":  {node(`"type":"timer","config":{"duration":90}`), "nodes[0].config.duration: want a string, got a number"},

		"many expressions": {`{"nodes":[` + many(6, `{"id":"n%d","type":"task","config":{"action":"email","body":"`+strings.Repeat(`{\u007bx}}`, 90)+`"}}`) + `]}`, "nodes[5].config.body: the definition has more than 500 expressions"},

		"dangling from":   {`{"nodes":[{"id":"a","type":"condition","expr":"true"}],"edges":[{"from":"b","to":"a"}]}`, `edges[0].from: there is no node "b"`},
		"dangling to":     {`{"nodes":[{"id":"a","type":"condition","expr":"true"}],"edges":[{"from":"a","to":"b"}]}`, `edges[0].to: there is no node "b"`},
		"no end":          {`{"nodes":[{"id":"a","type":"condition","expr":"true"}],"edges":[{"from":"a"}]}`, `edges[0].to: is required`},
		"edge member":     {`{"edges":[{"from":"a","to":"b","when":"x"}]}`, "edges[0].when: unknown field"},
		"edge condition":  {graphText("a?>b:price<500"), `edges[0].condition: want "true" or "false", got "price<500"`},
		"edge of a task":  {graphText("a>b:true"), `edges[0].condition: is for edges from a node of type condition, and "a" is of type task`},
		"self loop":       {graphText("a>a"), `edges[0]: leads from "a" to itself`},
		"edge twice":      {graphText("a>b a>b"), `edges[1]: leads from "a" to "b" as edges[0] does`},
		"both outcomes":   {graphText("a?>b:true a?>b:false"), `edges[1]: leads from "a" to "b" as edges[0] does`},
		"circle":          {graphText("e>a a>b b>c c>a"), "edges: lead in a circle without a node of type timer: a → b → c → a"},
		"circle of two":   {graphText("e>x x>y y>z z>y"), "edges: lead in a circle without a node of type timer: y → z → y"},
		"circle and loop": {graphText("e>a a>T T>a a>b b>a"), "a → b → a"},
		"no entry":        {graphText("a>T T>a"), "nodes: there is no node to begin with"},
		"island":          {graphText("e>f a>T T>a"), `nodes[2]: "a" is never reached`},

		"schedule id":        {`{"schedules":[{"interval_sec":60}]}`, "schedules[0].id: is required"},
		"schedule twice":     {`{"schedules":[{"id":"s","interval_sec":60},{"id":"s","interval_sec":60}]}`, `schedules[1].id: "s" is the id of schedules[0] already`},
		"schedule none":      {schedule(`"paused":true`), "schedules[0]: want cron or interval_sec"},
		"schedule both":      {schedule(`"cron":"* * * * *","interval_sec":60`), "schedules[0]: want cron or interval_sec, not both"},
		"schedule short":     {schedule(`"interval_sec":59`), "schedules[0].interval_sec: want 60 to"},
		"schedule negative":  {schedule(`"interval_sec":-60`), "schedules[0].interval_sec: want 60 to"},
		"schedule long":      {schedule(`"interval_sec":31622401`), "schedules[0].interval_sec: want 60 to 31622400"},
		"cron":               {schedule(`"cron":"every day"`), "schedules[0].cron: has 2 fields: want minute, hour, day of month"},
		"cron seconds":       {schedule(`"cron":"0 0 9 * * * *"`), "schedules[0].cron: has seconds, but a workflow runs at most once a minute"},
		"cron range":         {schedule(`"cron":"61 * * * *"`), `schedules[0].cron: minute: "61" is not within 0 to 59`},
		"cron any":           {schedule(`"cron":"0 9 ? * mon"`), `schedules[0].cron: day of month: "?" is not within 1 to 31`},
		"cron list":          {schedule(`"cron":"0 9, 17 * * *"`), `schedules[0].cron: hour: "" is not within 0 to 23`},
		"cron wraps":         {schedule(`"cron":"0 9 * * fri-sun"`), `schedules[0].cron: day of week: the range "fri-sun" ends before it begins`},
		"cron both days":     {schedule(`"cron":"0 0 31 2 mon"`), "schedules[0].cron: such a day never comes"},
		"cron every":         {schedule(`"cron":"@every 1s"`), "schedules[0].cron: @every is not a cron text here"},
		"cron zone":          {schedule(`"cron":"TZ=UTC"`), "schedules[0].cron: a time zone belongs to the field time_zone"},
		"cron never":         {schedule(`"cron":"0 0 31 2 *"`), "schedules[0].cron: such a day never comes"},
		"cron past":          {schedule(`"cron":"0 9 * * * 2020"`), "schedules[0].cron: such a day never comes"},
		"cron long":          {schedule(`"cron":"` + strings.Repeat("*", 600) + `"`), "schedules[0].cron: is 600 bytes"},
		"zone":               {schedule(`"interval_sec":60,"time_zone":"Middle/Earth"`), `schedules[0].time_zone: there is no time zone "Middle/Earth"`},
		"zone local":         {schedule(`"interval_sec":60,"time_zone":"Local"`), "schedules[0].time_zone: "},
		"zone path":          {schedule(`"interval_sec":60,"time_zone":"../etc/passwd"`), "schedules[0].time_zone: "},
		"schedule input":     {schedule(`"interval_sec":60,"input":"` + strings.Repeat("x", 70_000) + `"`), "schedules[0].input: is 70002 bytes"},
		"several are told":   {`{"nodes":[{"id":"a","type":"x"},{"id":"b","type":"y"}]}`, "nodes[1].type: "},
		"faults are bounded": {`{"nodes":[` + many(30, `{"id":"n%d","type":"x"}`) + `]}`, "nodes[19].type: "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, faults := library.Parse(json.RawMessage(c.in))
			require.NotEmpty(t, faults)
			require.LessOrEqual(t, len(faults), 20)
			require.Contains(t, faults.Error(), c.want)
			require.Less(t, len(faults.Error()), 8000)
			_, err := library.Normalize(json.RawMessage(c.in))
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestGraphs(t *testing.T) {
	for name, in := range map[string]string{
		"alone":                graphText("", "a", "b"),
		"patient":              task(`{"action":"email","timeout_sec":480,"retries":{"max_attempts":20,"interval_sec":60,"max_interval_sec":60}}`),
		"a day's turn":         node(`"type":"agent","config":{"agent":"a","message":"x","timeout_sec":86400}`),
		"diamond":              graphText("a>b a>c b>d c>d"),
		"condition":            graphText("a>c? c?>x:true c?>y:false c?>z"),
		"an island that waits": graphText("a>b b>T T>a", "e"),
		"a loop with entry":    graphText("e>a a>T T>a"),
		"timers in a row":      graphText("e>A A>B B>A"),
	} {
		t.Run(name, func(t *testing.T) {
			_, faults := library.Parse(json.RawMessage(in))
			if name == "an island that waits" {
				require.Contains(t, faults.Error(), "is never reached")
				return
			}
			require.Empty(t, faults)
		})
	}
}

func TestValidCron(t *testing.T) {
	for _, cron := range []string{"@hourly", "@daily", "@weekly", "@monthly", "@yearly", "*/5 8-18 * * MON-FRI", "0 0 29 2 *", "0 9 1,15 * *", "0 9 * * 7", "0 9 * * tues", "0 9 * * * 2099 # late"} {
		_, faults := library.Parse(json.RawMessage(schedule(`"cron":"` + cron + `","time_zone":"Europe/Berlin"`)))
		require.Empty(t, faults, cron)
	}
}
