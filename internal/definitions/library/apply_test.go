package library_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
)

// apply normalizes a definition and applies operations to it.
func apply(document, ops string) (json.RawMessage, error) {
	list, err := library.ParseOperations(json.RawMessage(ops))
	if err != nil {
		return nil, err
	}
	doc, err := library.Normalize(json.RawMessage(document))
	if err != nil {
		return nil, err
	}
	return library.Apply(doc, list)
}

const twoNodes = `{"nodes":[{"id":"a","type":"condition","expr":"x > 1"},{"id":"b","type":"task","config":{"action":"email","subject":"<&>"}}],"edges":[{"from":"a","to":"b","condition":"true"}]}`

func TestApply(t *testing.T) {
	cases := map[string]struct{ ops, want string }{
		"replace a member": {`[{"op":"replace","path":"/nodes/0/expr","value":"x > 2"}]`, strings.Replace(twoNodes, "x > 1", "x > 2", 1)},
		"add in front": {
			`[{"op":"add","path":"/nodes/0","value":{"id":"c","type":"timer","config":{"duration":"1h"}}}]`,
			strings.Replace(twoNodes, `[{"id":"a"`, `[{"id":"c","type":"timer","config":{"duration":"1h"}},{"id":"a"`, 1),
		},
		"remove":                   {`[{"op":"remove","path":"/edges/0"},{"op":"remove","path":"/nodes/1"}]`, `{"nodes":[{"id":"a","type":"condition","expr":"x > 1"}],"edges":[]}`},
		"unknown members":          {`[{"op":"remove","path":"/edges/0","comment":{"why":["old"]},"xyz":null}]`, strings.Replace(twoNodes, `{"from":"a","to":"b","condition":"true"}`, "", 1)},
		"remove ignores a value":   {`[{"op":"remove","path":"/edges/0","value":null}]`, strings.Replace(twoNodes, `{"from":"a","to":"b","condition":"true"}`, "", 1)},
		"description":              {`[{"op":"replace","path":"/description","value":"new"}]`, strings.Replace(twoNodes, `{"nodes"`, `{"description":"new","nodes"`, 1)},
		"schedules":                {`[{"op":"add","path":"/schedules/-","value":{"id":"s","interval_sec":60}}]`, strings.Replace(twoNodes, `{"nodes"`, `{"schedules":[{"id":"s","interval_sec":60}],"nodes"`, 1)},
		"the whole":                {`[{"op":"replace","path":"","value":{"nodes":[` + conditionNode + `]}}]`, `{"nodes":[` + conditionNode + `],"edges":[]}`},
		"the whole, added, and on": {`[{"op":"add","path":"","value":{"nodes":[],"edges":[]}},{"op":"add","path":"/nodes/-","value":{"id":"a","type":"condition","expr":"true"}}]`, `{"nodes":[{"id":"a","type":"condition","expr":"true"}],"edges":[]}`},
		"copy": {
			`[{"op":"copy","from":"/nodes/1","path":"/nodes/-"},{"op":"replace","path":"/nodes/2/id","value":"c"}]`,
			strings.Replace(twoNodes, `}}],"edges"`, `}},{"id":"c","type":"task","config":{"action":"email","subject":"<&>"}}],"edges"`, 1),
		},
		"move": {
			`[{"op":"move","from":"/nodes/1","path":"/nodes/0"}]`,
			`{"nodes":[{"id":"b","type":"task","config":{"action":"email","subject":"<&>"}},{"id":"a","type":"condition","expr":"x > 1"}],"edges":[{"from":"a","to":"b","condition":"true"}]}`,
		},
		"test":                      {`[{"op":"test","path":"/nodes/0/id","value":"a"},{"op":"test","path":"/nodes/1","value":{"type":"task","config":{"subject":"<&>","action":"email"},"id":"b"}}]`, twoNodes},
		"an invalid state between":  {`[{"op":"remove","path":"/nodes/1"},{"op":"remove","path":"/edges/0"}]`, `{"nodes":[{"id":"a","type":"condition","expr":"x > 1"}],"edges":[]}`},
		"a name with ~ and /":       {`[{"op":"add","path":"/nodes/1/config","value":{"action":"webhook","url":"https://x.example","body":{"a/b~c":1}}},{"op":"replace","path":"/nodes/1/config/body/a~1b~0c","value":2}]`, strings.Replace(twoNodes, `{"action":"email","subject":"<&>"}`, `{"action":"webhook","url":"https://x.example","body":{"a/b~c":2}}`, 1)},
		"numbers keep their digits": {`[{"op":"add","path":"/nodes/1/config","value":{"action":"webhook","url":"https://x.example","body":12345678901234567890.10}}]`, strings.Replace(twoNodes, `{"action":"email","subject":"<&>"}`, `{"action":"webhook","url":"https://x.example","body":12345678901234567890.10}`, 1)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := apply(twoNodes, c.ops)
			require.NoError(t, err)
			require.Equal(t, string(mustNormalize(t, c.want)), string(got))
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	big := fmt.Sprintf(`{"op":"add","path":"/nodes/-","value":{"id":"x","type":"task","config":{"action":"webhook","url":"https://x.example","body":{"a":%q}}}}`, strings.Repeat("x", 100_000))
	cases := map[string]struct {
		ops   string
		code  agent.Code
		field string
		want  string
	}{
		"none":             {``, agent.CodeInvalid, "operations", "is required"},
		"null":             {`null`, agent.CodeInvalid, "operations", "is required"},
		"empty":            {`[]`, agent.CodeInvalid, "operations", "are none"},
		"an object":        {`{}`, agent.CodeInvalid, "operations", "want an array"},
		"cut off":          {`[{"op":`, agent.CodeInvalid, "operations[0].op", "malformed JSON"},
		"too many":         {`[` + strings.Repeat(`{"op":"remove","path":"/a"},`, 100) + `{"op":"remove","path":"/a"}]`, agent.CodeOverflow, "operations", "are 101, at most 100"},
		"too large":        {`[{"op":"add","path":"/a","value":"` + strings.Repeat("x", library.MaxPatch) + `"}]`, agent.CodeOverflow, "operations", "at most 262144"},
		"too deep":         {`[{"op":"add","path":"/a","value":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}]`, agent.CodeOverflow, "operations", "deeper than 64"},
		"misspelt member":  {`[{"op":"add","path":"/a","values":2}]`, agent.CodeInvalid, "operations[0].value", "is required for add"},
		"ignored twice":    {`[{"op":"add","path":"/a","value":1,"x":2,"x":3}]`, agent.CodeInvalid, "operations[0].x", "is given twice"},
		"member twice":     {`[{"op":"add","path":"/a","value":{"x":{"a":1,"a":2}}}]`, agent.CodeInvalid, "operations[0].value.x.a", "is given twice"},
		"no op":            {`[{"path":"/a"}]`, agent.CodeInvalid, "operations[0].op", "is required"},
		"no path":          {`[{"op":"remove","path":"/a"},{"op":"add","value":1}]`, agent.CodeInvalid, "operations[1].path", "is required"},
		"unknown op":       {`[{"op":"append","path":"/a"}]`, agent.CodeInvalid, "operations[0].op", `want one of add, remove, replace, move, copy, test, got "append"`},
		"no value":         {`[{"op":"add","path":"/a"}]`, agent.CodeInvalid, "operations[0].value", "is required for add"},
		"no from":          {`[{"op":"move","path":"/a"}]`, agent.CodeInvalid, "operations[0].from", "is required for move"},
		"path of words":    {`[{"op":"remove","path":"nodes/0"}]`, agent.CodeInvalid, "operations[0].path", "want a JSON Pointer such as /nodes/-"},
		"empty part":       {`[{"op":"remove","path":"/nodes//id"}]`, agent.CodeInvalid, "operations[0].path", `has the index ""`},
		"tilde":            {`[{"op":"remove","path":"/nodes/0/a~2"}]`, agent.CodeInvalid, "operations[0].path", "neither ~0 nor ~1"},
		"sign":             {`[{"op":"remove","path":"/nodes/-1"}]`, agent.CodeInvalid, "operations[0].path", `has the index "-1"`},
		"plus":             {`[{"op":"remove","path":"/nodes/+1"}]`, agent.CodeInvalid, "operations[0].path", `has the index "+1"`},
		"leading zero":     {`[{"op":"remove","path":"/nodes/01"}]`, agent.CodeInvalid, "operations[0].path", `has the index "01"`},
		"huge index":       {`[{"op":"remove","path":"/nodes/99999999999999999999"}]`, agent.CodeInvalid, "operations[0].path", `has the index`},
		"long path":        {`[{"op":"remove","path":"/` + strings.Repeat("a", 2000) + `"}]`, agent.CodeInvalid, "operations[0].path", "is 2001 bytes"},
		"remove all":       {`[{"op":"remove","path":""}]`, agent.CodeInvalid, "operations[0].path", "delete the workflow"},
		"all of a list":    {`[{"op":"replace","path":"","value":[]}]`, agent.CodeInvalid, "operations[0].value", "want an object"},
		"move to all":      {`[{"op":"move","from":"/nodes","path":""}]`, agent.CodeInvalid, "operations[0].path", "cannot become the definition"},
		"copy of all":      {`[{"op":"copy","from":"","path":"/nodes/-"}]`, agent.CodeInvalid, "operations[0].from", "a part of itself"},
		"move into itself": {`[{"op":"move","from":"/nodes/0","path":"/nodes/0/config"}]`, agent.CodeInvalid, "operations[0].path", "is within what is moved"},

		"no such index":        {`[{"op":"replace","path":"/nodes/7/expr","value":"true"}]`, agent.CodeInvalid, "operations[0].path", "replace /nodes/7/expr does not apply: there is no such place; the nodes are: 0 a, 1 b"},
		"index past end":       {`[{"op":"add","path":"/nodes/3","value":{}}]`, agent.CodeInvalid, "operations[0].path", "there is no such place; the nodes are: 0 a, 1 b"},
		"by id":                {`[{"op":"remove","path":"/nodes/a"}]`, agent.CodeInvalid, "operations[0].path", "the nodes are: 0 a, 1 b"},
		"no such edge":         {`[{"op":"remove","path":"/edges/0"},{"op":"remove","path":"/edges/0"}]`, agent.CodeInvalid, "operations[1].path", "there are no edges"},
		"an edge":              {`[{"op":"remove","path":"/edges/4"}]`, agent.CodeInvalid, "operations[0].path", "the edges are: 0 a → b"},
		"no such member":       {`[{"op":"remove","path":"/nodes/0/name"}]`, agent.CodeInvalid, "operations[0].path", "there is no such place"},
		"past a text":          {`[{"op":"add","path":"/nodes/0/id/x","value":1}]`, agent.CodeInvalid, "operations[0].path", "does not apply"},
		"remove the end":       {`[{"op":"remove","path":"/nodes/-"}]`, agent.CodeInvalid, "operations[0].path", "remove /nodes/- does not apply: there is nothing at -, which is behind the last one; the nodes are: 0 a, 1 b"},
		"a member of the end":  {`[{"op":"add","path":"/nodes/-/name","value":"x"}]`, agent.CodeInvalid, "operations[0].path", "there is nothing at -"},
		"copy of nothing":      {`[{"op":"copy","from":"/edges/7","path":"/nodes/-"}]`, agent.CodeInvalid, "operations[0].from", "copy from /edges/7 to /nodes/- does not apply: there is no such place; the edges are: 0 a → b"},
		"move behind the rest": {`[{"op":"move","from":"/nodes/0","path":"/nodes/2"}]`, agent.CodeInvalid, "operations[0].path", "move /nodes/2 does not apply: there is no such place; the nodes are: 0 b"},
		"signed to add":        {`[{"op":"add","path":"/nodes/+1","value":{}}]`, agent.CodeInvalid, "operations[0].path", `has the index "+1"`},
		"zeros to test":        {`[{"op":"test","path":"/nodes/00","value":{}}]`, agent.CodeConflict, "operations[0]", `has the index "00"`},
		"test of nothing":      {`[{"op":"test","path":"/nodes/0/name","value":null}]`, agent.CodeConflict, "operations[0]", "test /nodes/0/name: there is no such place; the nodes are: 0 a, 1 b"},
		"test past the list":   {`[{"op":"test","path":"/nodes/9","value":null}]`, agent.CodeConflict, "operations[0]", "there is no such place"},
		"no nodes left":        {`[{"op":"replace","path":"","value":{"nodes":[]}}]`, agent.CodeInvalid, "", "nodes: is empty"},
		"move of nothing":      {`[{"op":"move","from":"/nodes/9","path":"/nodes/0"}]`, agent.CodeInvalid, "operations[0].from", "there is no such place; the nodes are: 0 a, 1 b"},
		"copy to nowhere":      {`[{"op":"copy","from":"/nodes/0","path":"/nodes/9"}]`, agent.CodeInvalid, "operations[0].path", "there is no such place"},
		"test fails":           {`[{"op":"test","path":"/nodes/0/id","value":"z"}]`, agent.CodeConflict, "operations[0]", "the value there is another one"},
		"dangling":             {`[{"op":"remove","path":"/nodes/1"}]`, agent.CodeInvalid, "", `edges[0].to: there is no node "b"`},
		"unknown member in it": {
			`[{"op":"add","path":"/steps","value":[]}]`, agent.CodeInvalid, "", "steps: unknown field",
		},
		"what grows": {
			`[` + big + `,{"op":"copy","from":"/nodes/2","path":"/nodes/-"},{"op":"copy","from":"/nodes/2","path":"/nodes/-"}]`,
			agent.CodeOverflow, "operations[2]", "the definition becomes",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := apply(twoNodes, c.ops)
			var e *agent.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.code, e.Code, "%v", err)
			require.Equal(t, c.field, e.Field, "%v", err)
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 2000)
		})
	}
	_, err := apply(twoNodes, `[{"op":"remove","path":"/nodes/1"}]`)
	var faults agent.Faults
	require.ErrorAs(t, err, &faults)
	require.Equal(t, "edges[0].to", faults[0].Path)
}

// patchBody applies operations to the body of a webhook and returns the new body.
func patchBody(t *testing.T, before, ops string) (string, error) {
	t.Helper()
	after, err := apply(task(`{"action":"webhook","url":"https://x.example","body":`+before+`}`), ops)
	if err != nil {
		return "", err
	}
	var d agent.WorkflowDefinition
	require.NoError(t, json.Unmarshal(after, &d))
	var config struct{ Body json.RawMessage }
	require.NoError(t, json.Unmarshal(d.Nodes[0].Config, &config))
	return string(config.Body), nil
}

func TestMemberNamesLikeIndices(t *testing.T) {
	const at = `"path":"/nodes/0/config/body/`
	for ops, want := range map[string]string{
		`[{"op":"replace",` + at + `01","value":7}]`:                                                          `{"":3,"+2":4,"-":5,"-1":2,"01":7}`,
		`[{"op":"remove",` + at + `-1"},{"op":"remove",` + at + `-"}]`:                                        `{"":3,"+2":4,"01":1}`,
		`[{"op":"test",` + at + `","value":3},{"op":"remove",` + at + `"}]`:                                   `{"+2":4,"-":5,"-1":2,"01":1}`,
		`[{"op":"add",` + at + `99999999999","value":{"":0}},{"op":"add",` + at + `99999999999/","value":1}]`: `{"":3,"+2":4,"-":5,"-1":2,"01":1,"99999999999":{"":1}}`,
		`[{"op":"move","from":"/nodes/0/config/body/01",` + at + `+2"}]`:                                      `{"":3,"+2":1,"-":5,"-1":2}`,
		`[{"op":"copy","from":"/nodes/0/config/body/",` + at + `-1"}]`:                                        `{"":3,"+2":4,"-":5,"-1":3,"01":1}`,
	} {
		got, err := patchBody(t, `{"01":1,"-1":2,"":3,"+2":4,"-":5}`, ops)
		require.NoError(t, err, ops)
		require.Equal(t, want, got, ops)
	}
}

func TestOperationTestComparesValues(t *testing.T) {
	for _, c := range []struct {
		there, value string
		same         bool
	}{
		{`100`, `100.0`, true},
		{`100`, `1e2`, true},
		{`0.10`, `1E-1`, true},
		{`-0`, `0.0e7`, true},
		{`{"a":[1.0,{"b":2}],"c":null}`, `{"c":null,"a":[1,{"b":20e-1}]}`, true},
		{`1e999999999`, `10e999999998`, true},
		{`9007199254740993`, `9007199254740992`, false},
		{`1`, `-1`, false},
		{`100`, `10`, false},
		{`1e999999999`, `1e999999998`, false},
		{`1`, `"1"`, false},
		{`"a"`, `"\u0061"`, true},
		{`null`, `null`, true},
		{`null`, `0`, false},
		{`[1]`, `[1,1]`, false},
		{`{"a":1}`, `{"a":1,"b":null}`, false},
		{`{"a":null}`, `{"b":null}`, false},
	} {
		_, err := patchBody(t, `{"x":`+c.there+`}`, `[{"op":"test","path":"/nodes/0/config/body/x","value":`+c.value+`}]`)
		if c.same {
			require.NoError(t, err, "%s %s", c.there, c.value)
		} else {
			require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "%s %s: %v", c.there, c.value, err)
		}
	}
}

func FuzzApply(f *testing.F) {
	f.Add(twoNodes, `[{"op":"replace","path":"/nodes/0/expr","value":"x > 2"}]`)
	f.Add(flights, priceDrop)
	for _, op := range []string{"add", "remove", "replace", "move", "copy", "test"} {
		for _, path := range []string{"", "/nodes/0", "/nodes/-", "/edges/0/from", "/description", "/nodes", "/nodes/0/config/a~1b", "/-"} {
			f.Add(twoNodes, fmt.Sprintf(`[{"op":%q,"path":%q,"from":"/nodes/1","value":null},{"op":"test","path":"","value":{}}]`, op, path))
		}
	}
	f.Fuzz(func(t *testing.T, document, ops string) {
		doc, err := library.Normalize(json.RawMessage(document))
		if err != nil {
			doc = mustNormalize(t, twoNodes)
		}
		list, err := library.ParseOperations(json.RawMessage(ops))
		if err != nil {
			require.Contains(t, []agent.Code{agent.CodeInvalid, agent.CodeOverflow}, agent.CodeOf(err))
			return
		}
		before := string(doc)
		after, err := library.Apply(doc, list)
		require.Equal(t, before, string(doc), "the document is not changed")
		if err != nil {
			require.Contains(t, []agent.Code{agent.CodeInvalid, agent.CodeOverflow, agent.CodeConflict}, agent.CodeOf(err), "%v", err)
			return
		}
		again, err := library.Normalize(after)
		require.NoError(t, err, "an accepted result is a valid definition")
		require.Equal(t, string(after), string(again), "and it is canonical")
		// The encoded operations must have the same effect.
		raw, err := json.Marshal(list)
		require.NoError(t, err)
		same, err := library.ParseOperations(raw)
		require.NoError(t, err)
		once, err := library.Apply(doc, same)
		require.NoError(t, err)
		require.Equal(t, string(after), string(once))
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{flights, twoNodes, `{}`, `{"schedules":[{"id":"s","cron":"0 8 * * *","time_zone":"UTC","input":{}}]}`, graphText("e>a a>T T>a")} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		d, faults := library.Parse(json.RawMessage(raw))
		if len(faults) > 0 {
			var e *agent.Error
			require.ErrorAs(t, library.FaultsError(faults), &e)
			return
		}
		canonical, err := library.Canonical(&d)
		require.NoError(t, err)
		again, faults := library.Parse(canonical)
		require.Empty(t, faults)
		once, err := library.Canonical(&again)
		require.NoError(t, err)
		require.Equal(t, string(canonical), string(once))
	})
}
