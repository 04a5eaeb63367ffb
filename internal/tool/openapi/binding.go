package openapi

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/openapi"
	"github.com/turnstone-run/turnstone/internal/strictjson"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	maxNamed = 100 // documents and servers of a binding
	maxHosts = 200
	maxURL   = 4 << 10 // bytes

	catalogPrefix = "catalog:"
)

// arguments are the checked arguments of a call.
type arguments struct {
	url       string
	operation string
	params    map[string]any      // numbers are json.Number
	order     map[string][]string // of the members of each object in params
	profile   string              // the name of an auth profile; empty: the first one that fits
}

// parseArguments decodes arguments strictly.
func parseArguments(args json.RawMessage) (arguments, error) {
	var a arguments
	var in struct {
		URL       *string         `json:"openapi_url"`
		Operation *string         `json:"operation_id"`
		Params    json.RawMessage `json:"params"`
		Profile   *string         `json:"auth_profile"`
	}
	if err := tool.DecodeArguments(args, MaxArgs, &in); err != nil {
		return a, err
	}
	switch {
	case in.URL == nil || strings.TrimSpace(*in.URL) == "":
		return a, agent.Invalid("openapi_url", "is required")
	case len(*in.URL) > maxURL:
		return a, agent.Invalid("openapi_url", "is %d bytes, at most %d", len(*in.URL), maxURL)
	case in.Operation == nil || strings.TrimSpace(*in.Operation) == "":
		return a, agent.Invalid("operation_id", "is required")
	}
	a.url, a.operation = strings.TrimSpace(*in.URL), strings.TrimSpace(*in.Operation)
	if in.Profile != nil {
		a.profile = *in.Profile
	}
	params, err := decodeParams(in.Params)
	a.params, a.order = params, openapi.MemberOrder(in.Params)
	return a, err
}

func decodeParams(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return map[string]any{}, nil
	}
	v, err := openapi.DecodeJSON(raw)
	if err != nil {
		return nil, agent.Invalid("params", "%w", err)
	}
	params, ok := v.(map[string]any)
	if !ok {
		return nil, agent.Invalid("params", "is no object")
	}
	return params, nil
}

// binding holds the parameters of the tool's binding.
type binding struct {
	Documents   map[string]documentSource `json:"documents"`
	AllowHosts  []string                  `json:"allow_hosts"`
	Servers     map[string]openapi.Server `json:"servers"`
	Validate    *validation               `json:"validate"`
	MaxResponse *int64                    `json:"max_response_bytes"`
}

type documentSource struct {
	URL      string          `json:"url"`
	Ref      string          `json:"ref"`
	Document json.RawMessage `json:"document"`
}

type validation struct {
	Request  *bool `json:"request"`
	Response *bool `json:"response"`
}

// parseBinding decodes the parameters. Unknown ones fail the call, because somebody may have meant to set a limit.
func parseBinding(parameters json.RawMessage) (binding, error) {
	var b binding
	if len(parameters) == 0 {
		return b, nil
	}
	err := strictjson.Decode(parameters, &b)
	switch {
	case err != nil:
	case len(b.Documents) > maxNamed:
		err = agent.Invalid("documents", "are %d, at most %d", len(b.Documents), maxNamed)
	case len(b.Servers) > maxNamed:
		err = agent.Invalid("servers", "are %d, at most %d", len(b.Servers), maxNamed)
	case len(b.AllowHosts) > maxHosts:
		err = agent.Invalid("allow_hosts", "are %d, at most %d", len(b.AllowHosts), maxHosts)
	case b.MaxResponse != nil && (*b.MaxResponse < 1 || *b.MaxResponse > MaxResponse):
		err = agent.Invalid("max_response_bytes", "want 1 to %d, got %d", MaxResponse, *b.MaxResponse)
	}
	if err != nil {
		return b, agent.FieldErrorf(agent.CodeInvalid, "", "the parameters of the tool's binding: %w", err)
	}
	return b, nil
}

func (b *binding) checksRequests() bool {
	return b.Validate == nil || b.Validate.Request == nil || *b.Validate.Request
}

func (b *binding) checksResponses() bool {
	return b.Validate == nil || b.Validate.Response == nil || *b.Validate.Response
}

// documentLocation says where a document is. One of its fields is set.
type documentLocation struct {
	url    *url.URL
	ref    string
	inline []byte
}

// findDocument returns the location of the document that a call names.
func (b *binding) findDocument(name string) (documentLocation, error) {
	short, isNamed := strings.CutPrefix(name, catalogPrefix)
	if !isNamed {
		u, err := parseURL(name)
		return documentLocation{url: u}, err
	}
	d, ok := b.Documents[short]
	switch {
	case !ok:
		names := make([]string, 0, len(b.Documents))
		for n := range b.Documents {
			names = append(names, catalogPrefix+n)
		}
		return documentLocation{}, agent.FieldErrorf(agent.CodeNotFound, "openapi_url",
			"there is no document %q: %s", clip.Bytes(name, 100), listNames("the catalog has", names))
	case d.Ref != "":
		return documentLocation{ref: d.Ref}, nil
	case len(d.Document) > 0:
		return documentLocation{inline: d.Document}, nil
	default:
		u, err := parseURL(d.URL)
		return documentLocation{url: u}, err
	}
}

// parseURL parses the address of a document. An address without a scheme gets https.
func parseURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, agent.Invalid("openapi_url", "is not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, agent.Invalid("openapi_url", "the scheme %q is not fetched: want http, https or catalog:<name>", clip.Bytes(u.Scheme, 20))
	case u.Host == "":
		return nil, agent.Invalid("openapi_url", "has no host")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}
