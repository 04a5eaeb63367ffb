package openapi

import (
	"net/url"
	"testing"
	"time"
)

// No document and no operation may cause a panic or an endless loop.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		documentText("3.0.3", "/users/{id}", users, usersRest),
		documentText("3.1.0", "/users/{id}", users, usersRest),
		bodyDocumentText("3.0.3", `{"$ref":"#/components/schemas/AnyPet"}`, pets+","+tree),
		bodyDocumentText("3.1.0", `{"$ref":"#/components/schemas/Tree","type":["object","null"]}`, tree),
		"openapi: 3.0.0\npaths: &p\n  /a: {get: {operationId: op, parameters: [{name: a, in: query, schema: {type: array}}]}}\nx: *p\n",
		aliasBomb(),
		`{"openapi":"3.0.0","paths":{"/{a}":{"get":{"operationId":"op","servers":[{"url":"http://{h}/","variables":{"h":{"default":"x"}}}],
			"security":[{"k":[]}],"requestBody":{"content":{"multipart/form-data":{}}}}}},"components":{"securitySchemes":{"k":{"type":"apiKey"}}}}`,
	} {
		f.Add([]byte(seed), `{"id":1,"body":{"a":[1]},"sort":"asc"}`)
	}
	base, err := url.Parse("https://api.example.com/openapi.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, params string) {
		if len(data) > 64<<10 || len(params) > 16<<10 {
			return
		}
		began := time.Now()
		d, err := Parse(data, base)
		if err != nil {
			return
		}
		given := map[string]any{}
		if v, err := DecodeJSON([]byte(params)); err == nil {
			given, _ = v.(map[string]any)
		}
		for i := range d.entries[:min(5, len(d.entries))] {
			id := d.entries[i].id
			if id == "" {
				id = d.entries[i].title()
			}
			op, err := d.Operation(t.Context(), id, nil)
			if err != nil {
				continue
			}
			if req, err := op.Request(t.Context(), Input{Params: given}); err == nil && (req.URL == nil || req.URL.Host == "" || len(req.URL.String()) > 2*MaxURL) {
				t.Fatalf("a request without a proper address: %v", req.URL)
			}
			op.Check(200, "application/json", given, true, false)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Fatalf("took %s", took)
		}
	})
}
