package openapi

import (
	"cmp"
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
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The bounds of a request.
const (
	MaxURL    = 16 << 10 // bytes
	MaxHeader = 32 << 10 // bytes of all header and cookie parameters
	MaxBody   = 32 << 20 // bytes
)

// Input has the values for a request.
type Input struct {
	// Params are the values of parameters by name, or by location and name: path.id, query.id, header.id, cookie.id. "body" or "requestBody" is
	// the body. If both are missing, other members are properties of the body. Numbers are [json.Number].
	Params map[string]any
	// Order has, for parameters that are objects, the names of their members in the order of [MemberOrder]. The members of other objects are
	// sorted by name.
	Order  map[string][]string
	Server Server
	// Unchecked skips the check against the schemas. Required parameters remain required.
	Unchecked bool
	// Open opens content by reference, for bodies and parts that are files. Nil means that there is no stored content.
	Open func(ctx context.Context, ref string) (io.ReadCloser, error)
}

// Request is a request without credentials.
type Request struct {
	Method   string
	URL      *url.URL
	Header   http.Header
	Cookie   string // without the cookies of credentials
	Body     []byte // may be nil
	Warnings []string
}

// Request returns a request of the operation. Its error is [agent.CodeInvalid] with Field params, which lists all problems of the parameters, or
// with Field servers, [agent.CodeOverflow] if the request is too large, or an error of Open.
func (o *Operation) Request(ctx context.Context, in Input) (*Request, error) {
	server, err := o.serverURL(in.Server)
	if err != nil {
		return nil, err
	}
	b := &requestBuilder{op: o, in: in, path: map[string]string{}, out: &Request{Method: o.Method, Header: http.Header{}}}
	assigned, others := b.assignParams()
	for _, p := range o.params {
		if v, exists := assigned[p.qualifiedName()]; exists {
			b.writeParam(p, v)
		}
	}
	if b.out.Body, err = b.writeBody(ctx, others); err != nil {
		return nil, err
	}
	if len(b.problems) > 0 {
		return nil, agent.Invalid("params", "%s", clip.Bytes(strings.Join(b.problems, "; "), 3000))
	}
	if err := b.setURL(server); err != nil {
		return nil, err
	}
	b.out.Header.Set("Accept", o.accept())
	b.out.Cookie = strings.Join(b.cookies, "; ")
	return b.out, nil
}

// requestBuilder builds a request.
type requestBuilder struct {
	op          *Operation
	in          Input
	path        map[string]string // escaped values of the path parameters
	query       []string          // escaped
	cookies     []string          // escaped
	headerBytes int
	problems    []string
	out         *Request
}

func (b *requestBuilder) addProblem(text string) {
	if len(b.problems) < maxProblems {
		b.problems = append(b.problems, clip.Bytes(text, 600))
	}
}

// assignParams returns the values of the parameters by their qualified names, and the other values, which belong to the body.
func (b *requestBuilder) assignParams() (assigned, others map[string]any) {
	assigned, others = map[string]any{}, map[string]any{}
	byName := map[string][]*param{}
	for _, p := range b.op.params {
		byName[p.qualifiedName()] = append(byName[p.qualifiedName()], p)
		byName[p.Name] = append(byName[p.Name], p)
	}
	for _, name := range sortedKeys(b.in.Params) {
		v := b.in.Params[name]
		candidates := byName[name]
		field := paramField(name)
		switch {
		case len(candidates) == 0 && b.op.ignoresHeader(name):
			b.out.Warnings = append(b.out.Warnings, field+" is ignored: the runtime sets that header")
		case len(candidates) == 0:
			others[name] = v
		case len(candidates) > 1:
			names := make([]string, len(candidates))
			for i, p := range candidates {
				names[i] = p.qualifiedName()
			}
			b.addProblem(field + ": there are several parameters of that name: give " + quoteNames(names))
		case b.op.isReserved(candidates[0]):
			b.addProblem(field + ": is set by the runtime and may not be given")
		case v == nil: // the same as a missing value
		default:
			if _, isAssigned := assigned[candidates[0].qualifiedName()]; isAssigned {
				b.addProblem(field + ": is given twice")
			}
			assigned[candidates[0].qualifiedName()] = v
		}
	}
	for _, p := range b.op.params {
		_, isAssigned := assigned[p.qualifiedName()]
		if !isAssigned && p.Required && !b.op.isReserved(p) && b.in.Params[p.Name] == nil { // problems of existing values are already reported
			name := p.Name
			if len(byName[name]) > 1 {
				name = p.qualifiedName()
			}
			b.addProblem(paramField(name) + " is required (" + p.describe() + ")")
		}
	}
	return assigned, others
}

// paramField returns the field of a parameter for errors.
func paramField(name string) string { return "params." + clip.Bytes(name, 100) }

// ignoresHeader reports whether a name is that of a header parameter that OpenAPI ignores.
func (o *Operation) ignoresHeader(name string) bool {
	name = strings.TrimPrefix(name, "header.")
	return slices.ContainsFunc(o.ignored, func(ignored string) bool { return strings.EqualFold(ignored, name) })
}

// isReserved reports whether callers must not set a parameter, because the connection, the credentials or the runtime set it.
func (o *Operation) isReserved(p *param) bool {
	if p.In == "header" && slices.Contains([]string{
		"host", "content-length", "transfer-encoding", "connection", "cookie", "idempotency-key",
		"proxy-authorization", "proxy-connection", "upgrade", "te", "trailer", "expect", "keep-alive",
	}, strings.ToLower(p.Name)) {
		return true
	}
	return slices.ContainsFunc(slices.Concat(o.Security...), func(s Scheme) bool {
		hasName := s.Key == p.Name || (p.In == "header" && strings.EqualFold(s.Key, p.Name))
		return s.Type == "apiKey" && s.In == p.In && hasName
	})
}

// writeParam checks a value and writes it into the request.
func (b *requestBuilder) writeParam(p *param, v any) {
	field := paramField(p.Name)
	v = coerce(v, p.types)
	b.check(p.schema, v, field)
	if p.media != "" { // written as a single text
		if kind, _ := kindOf(p.media); kind == mediaJSON {
			text, err := tool.EncodeJSON(v)
			if err != nil {
				b.addProblem(field + ": cannot be written as JSON")
				return
			}
			v = string(text)
		}
	}
	if object, ok := v.(map[string]any); ok {
		names, exists := b.in.Order[p.qualifiedName()]
		if !exists {
			names = b.in.Order[p.Name]
		}
		if len(names) == len(object) {
			v = orderedObject{object, names}
		}
	}
	if err := b.placeParam(p, v); err != nil {
		b.addProblem(field + errorText(err))
	}
}

// placeParam writes a value into path, query, headers or cookies.
func (b *requestBuilder) placeParam(p *param, v any) error {
	style, explode := serialization(p.In, p.Style, p.Explode)
	switch p.In {
	case "path":
		text, err := pathText(p.Name, style, explode, v)
		if err != nil {
			return err
		}
		if text == "" {
			return agent.Errorf(agent.CodeInvalid, "", "is empty: the address would be another")
		}
		if hasDotSegment(text) {
			return agent.Errorf(agent.CodeInvalid, "", "has a segment . or ..: the address would be another")
		}
		b.path[p.Name] = text
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
		b.headerBytes += len(text)
		b.out.Header.Set(p.Name, text)
	default:
		text, err := cookieText(p.Name, explode, v)
		if err != nil {
			return err
		}
		b.headerBytes += len(text)
		if text != "" {
			b.cookies = append(b.cookies, text)
		}
	}
	if b.headerBytes > MaxHeader {
		return agent.Errorf(agent.CodeInvalid, "", "makes the headers longer than %d bytes", MaxHeader)
	}
	return nil
}

// check checks a value against its schema. It adds a warning for a value that cannot be checked.
func (b *requestBuilder) check(schema string, v any, field string) {
	if schema == "" || b.in.Unchecked {
		return
	}
	problems, err := b.op.request.check(schema, v, field)
	if err != nil {
		b.out.Warnings = append(b.out.Warnings, err.Error())
	}
	for _, problem := range problems {
		b.addProblem(problem)
	}
}

// coerce converts a value to a type of its schema if that loses nothing, because models confuse types: "5" for 5, 5 for "5", 5 for [5].
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

// setURL sets the URL of the request.
func (b *requestBuilder) setURL(server *url.URL) error {
	path, err := expandPath(b.op.Path, b.path)
	if err != nil {
		return err
	}
	if hasDotSegment(path) {
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
	u.User = server.User // the sender refuses it
	b.out.URL = u
	return nil
}

// accept returns an Accept header with the documented media types of successful responses, JSON first.
func (o *Operation) accept() string {
	var names []string
	for status, content := range o.responses {
		if !strings.HasPrefix(status, "2") && status != "DEFAULT" {
			continue
		}
		for name := range content {
			if !slices.Contains(names, name) && httpguts.ValidHeaderFieldValue(name) && len(name) < 100 {
				names = append(names, name)
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, _ := kindOf(a)
		y, _ := kindOf(b)
		return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
	})
	if len(names) == 0 {
		return "application/json, */*;q=0.5"
	}
	return strings.Join(names[:min(len(names), 10)], ", ")
}

// errorText returns the end of a problem that begins with the name of a field.
func errorText(err error) string {
	if e, ok := err.(*agent.Error); ok { //nolint:errorlint // from this package, never wrapped
		return e.Field + ": " + e.Err.Error()
	}
	return ": " + err.Error()
}
