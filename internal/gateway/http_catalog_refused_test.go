package gateway_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

func TestCatalogBadRequests(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.BodyBytes = 100_000 })
	d.fillCatalog()
	yaml := []string{"Content-Type", "application/yaml"}
	many := ""
	for i := range 17 {
		many += fmt.Sprintf("&label=k%d=v", i)
	}
	cases := map[string]struct {
		request, body string
		header        []string
		want          string // status and field
	}{
		"page size":            {request: "GET /v1/agents?page_size=1001", want: "400 page_size"},
		"page size, negative":  {request: "GET /v1/catalog/nodes?page_size=-1", want: "400 page_size"},
		"page size, no number": {request: "GET /v1/catalog/documents?page_size=ten", want: "400 page_size"},
		"page token":           {request: "GET /v1/catalog/history?page_token=zzz", want: "400 page_token"},
		"page token, long":     {request: "GET /v1/agents?page_token=" + strings.Repeat("x", 1025), want: "400 page_token"},
		"label":                {request: "GET /v1/agents?label=team", want: "400 label"},
		"label twice":          {request: "GET /v1/agents?label=a&label=a", want: "400 label"},
		"label without key":    {request: "GET /v1/catalog/nodes?label==x", want: "400 label"},
		"labels":               {request: "GET /v1/catalog/nodes?node_id=x" + many, want: "400 label"},
		"type":                 {request: "GET /v1/catalog/nodes?type=model", want: "400 type"},
		"node id":              {request: "GET /v1/catalog/nodes?node_id=a/b", want: "400 node_id"},
		"node":                 {request: "GET /v1/agents?node=a%20b", want: "400 node"},
		"tool":                 {request: "GET /v1/agents?tool=%1b[2J", want: "400 tool"},
		"kind":                 {request: "GET /v1/catalog/documents?kind=agents", want: "400 kind"},
		"kind of history":      {request: "GET /v1/catalog/history?kind=agents", want: "400 kind"},
		"name":                 {request: "GET /v1/catalog/documents?name=a/b", want: "400 name"},
		"version":              {request: "GET /v1/catalog/documents?version=a%0ab", want: "400 version"},
		"source":               {request: "GET /v1/catalog/documents?source=git", want: "400 source"},
		"tenant":               {request: "GET /v1/agents?tenant=a%20b", want: "400 tenant"},
		"two tenants":          {request: "GET /v1/agents?tenant=a", header: []string{"Turnstone-Tenant", "b"}, want: "400 tenant"},
		"every tenant's head":  {request: "GET /v1/agents", header: []string{"Turnstone-Tenant", "*"}, want: "400 tenant"},
		"parameter twice":      {request: "GET /v1/agents?node=x&node=y", want: "400 node"},
		"query":                {request: "GET /v1/agents?node=%zz", want: "400 "},
		"after":                {request: "GET /v1/catalog/stream?after=x", want: "400 after"},
		"last event id":        {request: "GET /v1/catalog/stream", header: []string{"Last-Event-ID", "x"}, want: "400 Last-Event-ID"},
		"stream's tenant":      {request: "GET /v1/catalog/stream?tenant=a%20b", want: "400 tenant"},

		"nothing":            {request: "POST /v1/catalog/apply", body: `{}`, want: "400 files"},
		"nothing in YAML":    {request: "POST /v1/catalog/apply", body: " \n", header: yaml, want: "400 files"},
		"no body":            {request: "POST /v1/catalog/apply", want: "400 "},
		"unknown":            {request: "POST /v1/catalog/apply", body: `{"file":[]}`, want: "400 file"},
		"unknown, deeper":    {request: "POST /v1/catalog/apply", body: `{"files":[{"data":"","path":"x"}]}`, want: "400 files[0].path"},
		"data":               {request: "POST /v1/catalog/apply", body: `{"files":[{"data":{"kind":"x"}}]}`, want: "400 files[0].data"},
		"document":           {request: "POST /v1/catalog/apply", body: `{"documents":[{},"x"]}`, want: "400 documents[1]"},
		"document, key":      {request: "POST /v1/catalog/apply", body: `{"documents":[{"a":1,"a":2}]}`, want: "400 documents[0].a"},
		"base revision":      {request: "POST /v1/catalog/apply", body: `{"prune":true,"base_revision":-1}`, want: "400 base_revision"},
		"too many files":     {request: "POST /v1/catalog/apply", body: `{"documents":[{}` + strings.Repeat(",{}", 1000) + `]}`, want: "400 files"},
		"too many deletes":   {request: "POST /v1/catalog/apply", body: `{"delete":[{}` + strings.Repeat(",{}", 1000) + `]}`, want: "400 delete"},
		"delete what":        {request: "POST /v1/catalog/apply", body: `{"delete":[{"kind":"Thing","name":"x"}]}`, want: "400 kind"},
		"file name":          {request: "POST /v1/catalog/apply", body: `{"files":[{"name":"a\u001b","data":"x"}]}`, want: "400 files[0].name"},
		"by":                 {request: "POST /v1/catalog/apply", body: `{"prune":true,"by":"` + strings.Repeat("x", 257) + `"}`, want: "400 by"},
		"comment":            {request: "POST /v1/catalog/apply", body: `{"prune":true,"comment":"\u0000"}`, want: "400 comment"},
		"query besides JSON": {request: "POST /v1/catalog/apply?dry_run=true", body: `{"prune":true}`, want: "400 dry_run"},
		"dry run":            {request: "POST /v1/catalog/apply?dry_run=perhaps", body: manifest, header: yaml, want: "400 dry_run"},
		"content type":       {request: "POST /v1/catalog/apply", body: manifest, header: []string{"Content-Type", "text/plain"}, want: "415 "},
		"large":              {request: "POST /v1/catalog/apply", body: strings.Repeat("#", 100_001), header: yaml, want: "413 "},
		"large JSON":         {request: "POST /v1/catalog/apply", body: `{"by":"` + strings.Repeat("#", 100_001), want: "413 "},

		"publish what":          {request: "POST /v1/catalog/publish", body: `{}`, want: "400 agent"},
		"publish whom":          {request: "POST /v1/catalog/publish", body: `{"agent":"a b"}`, want: "400 agent"},
		"publish nobody":        {request: "POST /v1/catalog/publish", body: `{"agent":"nobody"}`, want: "404 agent"},
		"publish more":          {request: "POST /v1/catalog/publish", body: `{"agent":"analyst","all":true}`, want: "400 all"},
		"publish, two tenants":  {request: "POST /v1/catalog/publish?tenant=b", body: `{"agent":"analyst","tenant":"a"}`, want: "400 tenant"},
		"publish, by":           {request: "POST /v1/catalog/publish", body: `{"agent":"analyst","by":"\u0007"}`, want: "400 by"},
		"route, unknown":        {request: "POST /v1/routes/dry-run", body: `{"agnet":"x"}`, want: "400 agnet"},
		"route, context":        {request: "POST /v1/routes/dry-run", body: `{"context":{"role":"x"}}`, want: "400 context.role"},
		"route, type":           {request: "POST /v1/routes/dry-run", body: `{"message":{"text":"x"}}`, want: "400 message"},
		"route, session":        {request: "POST /v1/routes/dry-run", body: `{"session_id":"a b"}`, want: "400 session_id"},
		"route, agent":          {request: "POST /v1/routes/dry-run", body: `{"agent":"a b"}`, want: "400 agent"},
		"route, nobody":         {request: "POST /v1/routes/dry-run", body: `{"agent":"nobody"}`, want: "404 agent"},
		"route, channel":        {request: "POST /v1/routes/dry-run", body: `{"channel":"\u0000"}`, want: "400 channel"},
		"route, tenant":         {request: "POST /v1/routes/dry-run", body: `{"context":{"tenant":"*"}}`, want: "400 context.tenant"},
		"route, two tenants":    {request: "POST /v1/routes/dry-run", body: `{"context":{"tenant":"a"}}`, header: []string{"Turnstone-Tenant", "b"}, want: "400 context.tenant"},
		"route, what it cannot": {request: "POST /v1/routes/dry-run", body: `{"limits":{}}`, want: "400 limits"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			method, path, _ := strings.Cut(c.request, " ")
			a := d.send(method, path, c.body, c.header...)
			require.Equal(t, c.want, fmt.Sprint(a.status, " ", a.failure(t).Field), "%s", a.body)
		})
	}
	require.Empty(t, d.catalog.Applied(), "what is refused never reaches the catalog")
	require.Equal(t, 413, d.send("POST", "/v1/catalog/apply", strings.Repeat("#", 100_001), yaml...).status)
	require.Equal(t, 200, d.send("POST", "/v1/catalog/apply", strings.Repeat("#", 100_000), yaml...).status)
}

func TestCatalogErrors(t *testing.T) {
	d := startGateway(t, nil)
	var refuse error
	d.catalog.Refuse = func(agent.ApplyRequest) error { return refuse }
	faults := agent.Faults{
		{File: "a.yaml", Line: 3, Column: 7, Document: "AgentInstance default/writer", Path: "models[0]", Message: `there is no model "gpt"`},
		{File: "a.yaml", Line: 9, Message: "unknown kind"},
	}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"faults": {faults.Err(), 400}, "wrapped": {fmt.Errorf("apply: %w", faults.Err()), 400}, "conflict": {agent.Errorf(agent.CodeConflict, "", "changed since"), 409},
		"away": {agent.Errorf(agent.CodeUnavailable, "", "storage is away"), 503}, "bug": {errors.New("dial postgres://user:secret@db"), 500},
		"faults of ours": {&agent.Error{Code: agent.CodeInternal, Err: agent.Faults{{Message: "secret"}}}, 500},
	} {
		refuse = c.err
		a := d.send("POST", "/v1/catalog/apply", `{"prune":true}`)
		require.Equal(t, c.want, a.status, name)
		f := a.failure(t)
		require.NotContains(t, string(a.body), "secret")
		if c.want == 400 {
			require.Equal(t, faults, f.Faults)
			require.Equal(t, `a.yaml:3:7: AgentInstance default/writer: models[0]: there is no model "gpt" (and 1 more)`, f.Message)
		} else {
			require.Empty(t, f.Faults)
		}
	}
}
