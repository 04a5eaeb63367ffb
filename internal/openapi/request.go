package openapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// The bounds of a request.
const (
	MaxURL    = 16 << 10 // bytes
	MaxHeader = 32 << 10 // bytes of all values of parameters
	MaxBody   = 32 << 20 // bytes
)

// Input is what a request is made of.
type Input struct {
	// Params are values by the name of a parameter, or by in.name: path.id, query.id, header.id, cookie.id. "body", or "requestBody", is the
	// body; without it the members that name properties of a body's object are that object's. Numbers are [json.Number].
	Params map[string]any
	Server Server
	// Unchecked leaves out the check against the schemas; what is required is required all the same.
	Unchecked bool
	// Open opens content by reference, for bodies and parts that are files; nil: there is none.
	Open func(ctx context.Context, ref string) (io.ReadCloser, error)
}

// Request is what is to be sent. It has no credentials.
type Request struct {
	Method   string
	URL      *url.URL
	Header   http.Header
	Cookie   string // goes with those that credentials bring
	Body     []byte // nil: none
	Warnings []string
}

// Request makes the request of an operation. An error lists all that is wrong with the parameters, each by its name: [agent.CodeInvalid],
// Field params or servers; [agent.CodeOverflow] for what is too large; and those of Open.
func (o *Operation) Request(ctx context.Context, in Input) (*Request, error) {
	server, err := o.serverURL(in.Server)
	if err != nil {
		return nil, err
	}
	b := &building{op: o, in: in, values: map[string]string{}, out: &Request{Method: o.Method, Header: http.Header{}}}
	placed, rest := b.place()
	for _, p := range o.params {
		if v, given := placed[p.qualified()]; given {
			b.write(p, v)
		}
	}
	content, err := b.content(ctx, rest)
	if err != nil {
		return nil, err
	}
	if err := b.fault(); err != nil {
		return nil, err
	}
	b.out.Body = content
	if err := b.address(server); err != nil {
		return nil, err
	}
	b.out.Header.Set("Accept", o.accept())
	b.out.Cookie = strings.Join(b.cookies, "; ")
	return b.out, nil
}

// building is one request on its way.
type building struct {
	op       *Operation
	in       Input
	values   map[string]string // of the path, escaped
	query    []string          // escaped
	cookies  []string          // escaped
	headers  int               // bytes
	problems []string
	out      *Request
}

func (b *building) wrong(text string) {
	if len(b.problems) < maxProblems {
		b.problems = append(b.problems, clip.Bytes(text, 600))
	}
}

func (b *building) fault() error {
	if len(b.problems) == 0 {
		return nil
	}
	return agent.Invalid("params", "%s", clip.Bytes(strings.Join(b.problems, "; "), 3000))
}

// place gives each parameter its value; the rest is the body's.
func (b *building) place() (placed, rest map[string]any) {
	placed, rest = map[string]any{}, map[string]any{}
	byName := map[string][]*param{}
	for _, p := range b.op.params {
		byName[p.qualified()] = append(byName[p.qualified()], p)
		if p.qualified() != p.Name {
			byName[p.Name] = append(byName[p.Name], p)
		}
	}
	for _, name := range sorted(b.in.Params) {
		v := b.in.Params[name]
		candidates := byName[name]
		switch {
		case len(candidates) == 0 && b.op.ignores(name):
			b.out.Warnings = append(b.out.Warnings, "params."+clip.Bytes(name, 100)+" is ignored: the runtime sets that header")
		case len(candidates) == 0:
			rest[name] = v
		case len(candidates) > 1:
			names := make([]string, len(candidates))
			for i, p := range candidates {
				names[i] = p.qualified()
			}
			b.wrong("params." + clip.Bytes(name, 100) + ": there are several parameters of that name: give " + quoted(names))
		case b.op.reserved(candidates[0]):
			b.wrong("params." + clip.Bytes(name, 100) + ": is set by the runtime and may not be given")
		case v == nil: // as if it were left out
		default:
			if _, twice := placed[candidates[0].qualified()]; twice {
				b.wrong("params." + clip.Bytes(name, 100) + ": is given twice")
			}
			placed[candidates[0].qualified()] = v
		}
	}
	for _, p := range b.op.params {
		if _, given := placed[p.qualified()]; !given && p.Required && !b.op.reserved(p) && !b.given(p) {
			b.wrong("params." + clip.Bytes(p.Name, 100) + " is required (" + p.about() + ")")
		}
	}
	return placed, rest
}

// given reports whether a parameter was given in some form, for one problem to be told once.
func (b *building) given(p *param) bool {
	v, short := b.in.Params[p.Name]
	return short && v != nil
}

// ignores reports whether a name is that of a header parameter that has no effect, whatever its value.
func (o *Operation) ignores(name string) bool {
	name = strings.TrimPrefix(name, "header.")
	return slices.ContainsFunc(o.ignored, func(ignored string) bool { return strings.EqualFold(ignored, name) })
}

// reserved reports whether a parameter is not the caller's: what the connection, the credentials and the runtime need.
func (o *Operation) reserved(p *param) bool {
	if p.In == "header" && slices.Contains([]string{
		"host", "content-length", "transfer-encoding", "connection", "cookie", "idempotency-key",
		"proxy-authorization", "proxy-connection", "upgrade", "te", "trailer", "expect", "keep-alive",
	}, strings.ToLower(p.Name)) {
		return true
	}
	for _, alternative := range o.Security {
		for _, s := range alternative {
			if s.Type == "apiKey" && s.In == p.In && (s.Key == p.Name || p.In == "header" && strings.EqualFold(s.Key, p.Name)) {
				return true
			}
		}
	}
	return false
}

// write puts a value into its place.
func (b *building) write(p *param, v any) {
	at := "params." + clip.Bytes(p.Name, 100)
	v = coerce(v, p.types)
	b.check(p.schema, v, at)
	sm, err := p.SerializationMethod()
	if err != nil {
		b.wrong(at + ": " + err.Error())
		return
	}
	if p.media != "" { // one text, whatever it holds
		if kind, _ := kindOf(p.media); kind == mediaJSON {
			text, err := encodeJSON(v)
			if err != nil {
				b.wrong(at + ": cannot be written as JSON")
				return
			}
			v = string(text)
		}
	}
	if err := b.into(p, sm.Style, sm.Explode, v); err != nil {
		b.wrong(at + errorText(err))
	}
}

func (b *building) into(p *param, style string, explode bool, v any) error {
	switch p.In {
	case "path":
		text, err := pathText(p.Name, style, explode, v)
		if err != nil {
			return err
		}
		if text == "" {
			return agent.Errorf(agent.CodeInvalid, "", "is empty: the address would be another")
		}
		if climbs(text) {
			return agent.Errorf(agent.CodeInvalid, "", "has a segment . or ..: the address would be another")
		}
		b.values[p.Name] = text
	case "query":
		text, err := queryText(p.Name, style, explode, p.AllowReserved, v)
		if err != nil {
			return err
		}
		if text != "" {
			b.query = append(b.query, text)
		}
	case "header":
		text, err := headerText(explode, v)
		if err != nil {
			return err
		}
		if !httpguts.ValidHeaderFieldName(p.Name) || !httpguts.ValidHeaderFieldValue(text) {
			return agent.Errorf(agent.CodeInvalid, "", "has characters that no header may have")
		}
		b.headers += len(text)
		b.out.Header.Set(p.Name, text)
	default:
		text, err := cookieText(p.Name, explode, v)
		if err != nil {
			return err
		}
		b.headers += len(text)
		if text != "" {
			b.cookies = append(b.cookies, text)
		}
	}
	if b.headers > MaxHeader {
		return agent.Errorf(agent.CodeInvalid, "", "makes the headers longer than %d bytes", MaxHeader)
	}
	return nil
}

// check compares a value with its schema. What cannot be checked is said, and sent.
func (b *building) check(schema string, v any, at string) {
	if schema == "" || b.in.Unchecked {
		return
	}
	problems, err := b.op.request.check(schema, v, at)
	if err != nil {
		b.out.Warnings = append(b.out.Warnings, err.Error())
	}
	for _, problem := range problems {
		b.wrong(problem)
	}
}

// coerce forgives what models mix up, where a schema says what is meant and nothing is lost: "5" for 5, 5 for "5", 5 for [5].
func coerce(v any, types []string) any {
	has := func(t string) bool { return slices.Contains(types, t) }
	switch scalar := v.(type) {
	case string:
		if len(types) == 0 || has("string") {
			return v
		}
		if (has("number") || has("integer")) && json.Valid([]byte(scalar)) && strings.Trim(scalar, "0123456789+-.eE") == "" {
			return json.Number(scalar)
		}
		if has("boolean") && (scalar == "true" || scalar == "false") {
			return scalar == "true"
		}
	case json.Number:
		if has("string") && !has("number") && !has("integer") {
			return scalar.String()
		}
	}
	if _, isList := v.([]any); !isList && has("array") && !has("object") && len(types) == 1 {
		if _, isObject := v.(map[string]any); !isObject {
			return []any{v}
		}
	}
	return v
}

// address puts the URL together.
func (b *building) address(server *url.URL) error {
	path, err := expand(b.op.Path, b.values)
	if err != nil {
		return err
	}
	if climbs(path) {
		return agent.Invalid("params", "make a path with a segment . or ..: the address would be another")
	}
	query := b.query
	if server.RawQuery != "" {
		query = append([]string{server.RawQuery}, query...)
	}
	text := server.Scheme + "://" + server.Host + strings.TrimRight(server.EscapedPath(), "/") + path
	if len(query) > 0 {
		text += "?" + strings.Join(query, "&")
	}
	if len(text) > MaxURL {
		return agent.Errorf(agent.CodeOverflow, "", "the address is %d bytes, at most %d", len(text), MaxURL)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host != server.Host {
		return agent.Invalid("params", "make no valid address")
	}
	u.User = server.User // refused by who sends it, with the right words
	b.out.URL = u
	return nil
}

// accept lists the types of the answers that the document promises, JSON first.
func (o *Operation) accept() string {
	var wanted []string
	for status, ref := range o.responses.Map() {
		if !strings.HasPrefix(status, "2") && status != "default" || ref.Value == nil {
			continue
		}
		for name := range ref.Value.Content {
			if !slices.Contains(wanted, name) && httpguts.ValidHeaderFieldValue(name) && len(name) < 100 {
				wanted = append(wanted, name)
			}
		}
	}
	slices.SortFunc(wanted, func(a, b string) int {
		x, _ := kindOf(a)
		y, _ := kindOf(b)
		if x != y {
			return int(x) - int(y)
		}
		return strings.Compare(a, b)
	})
	if len(wanted) == 0 {
		return "application/json, */*;q=0.5"
	}
	return strings.Join(wanted[:min(len(wanted), 10)], ", ")
}

// errorText continues a sentence that begins with the place of a value.
func errorText(err error) string {
	if e, ok := err.(*agent.Error); ok { //nolint:errorlint // made here, not wrapped
		return e.Field + ": " + e.Err.Error()
	}
	return ": " + err.Error()
}
