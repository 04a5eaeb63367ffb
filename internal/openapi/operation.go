package openapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Operation is one operation of a document, with all that it refers to. It does not change.
type Operation struct {
	ID     string // "" if the document gives none
	Method string // upper case
	Path   string // the template

	// Security lists the alternatives. Each is a list of schemes that are all needed; an empty one needs nothing. Declared is false if the
	// document says nothing of security.
	Security []Requirement
	Declared bool

	params    []*param
	ignored   []string // header parameters that OpenAPI says to ignore
	body      *body
	responses map[string]map[string]string // names of schemas, by status and media type
	servers   []server
	base      *url.URL // of the document; nil: it has no address

	request, response *validator
	weight            int // values of the schemas
}

// Requirement is a list of schemes that are needed together.
type Requirement []Scheme

// Scheme is one way to authenticate.
type Scheme struct {
	Name   string // of the scheme in the document
	Type   string // apiKey, http, oauth2, openIdConnect, mutualTLS
	In     string // apiKey: header, query, cookie
	Key    string // apiKey: of that header, parameter, cookie
	Scheme string // http: lower case: basic, bearer, …
}

// String describes the scheme to people.
func (s Scheme) String() string {
	switch s.Type {
	case "apiKey":
		return s.Name + " (apiKey in " + s.In + " " + s.Key + ")"
	case "http":
		return s.Name + " (http " + s.Scheme + ")"
	default:
		return s.Name + " (" + s.Type + ")"
	}
}

// String names the schemes.
func (r Requirement) String() string {
	names := make([]string, len(r))
	for i := range r {
		names[i] = r[i].String()
	}
	return strings.Join(names, " and ")
}

// Safe reports whether the operation is one that only reads (RFC 9110 §9.2.1).
func (o *Operation) Safe() bool { return SafeMethod(o.Method) }

// SafeMethod reports whether requests of a method only read.
func SafeMethod(method string) bool {
	return slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, method)
}

// Repeatable reports whether sending a request twice has the effect of sending it once (RFC 9110 §9.2.2).
func (o *Operation) Repeatable() bool {
	return o.Safe() || o.Method == http.MethodPut || o.Method == http.MethodDelete
}

// param is a parameter. In and Name together are unique.
type param struct {
	Name, In, Style         string
	Required, AllowReserved bool
	Explode                 *bool
	Description             string

	schema string // of the request's; "" for none
	media  string // of a parameter that is written as content, "" otherwise
	types  []string
}

func (p *param) qualifiedName() string { return p.In + "." + p.Name }

// describe returns the place, the types and the description of the parameter, for an error.
func (p *param) describe() string {
	text := p.In
	if len(p.types) > 0 {
		text += ", " + strings.Join(p.types, " or ")
	}
	if words := strings.Join(strings.Fields(p.Description), " "); words != "" {
		text += ": " + words
	}
	return text
}

// body lists the media types that an operation takes, the most preferred first.
type body struct {
	Required bool

	media []media
}

type media struct {
	name     string // as the document has it
	kind     mediaKind
	schema   string
	encoding map[string]encoding // by property
	members  map[string]bool     // as of [schemaSet.membersOf]
	open     bool                // it takes members of any other name
}

// encoding says how a form writes a property.
type encoding struct {
	ContentType, Style string
	Explode            *bool
	AllowReserved      bool
}

type mediaKind int

const (
	mediaJSON mediaKind = iota
	mediaForm
	mediaMultipart
	mediaText
	mediaBytes
)

// kindOf returns how a body of a media type, or range of such, is written; ok is false if it cannot be.
func kindOf(name string) (kind mediaKind, ok bool) {
	base, _, _ := strings.Cut(strings.ToLower(name), ";")
	base = strings.TrimSpace(base)
	switch {
	case base == "application/json", base == "text/json", strings.HasSuffix(base, "+json"), base == "*/*", base == "application/*":
		return mediaJSON, true
	case base == "application/x-www-form-urlencoded":
		return mediaForm, true
	case base == "multipart/form-data":
		return mediaMultipart, true
	case strings.HasPrefix(base, "multipart/"):
		return 0, false
	case strings.HasPrefix(base, "text/"), strings.HasSuffix(base, "+xml"), base == "application/xml", base == "application/x-ndjson":
		return mediaText, true
	default:
		return mediaBytes, true
	}
}

// contentType returns the media type that a request names.
func (m *media) contentType() string {
	switch {
	case !strings.Contains(m.name, "*"):
		return m.name
	case m.kind == mediaJSON:
		return "application/json"
	case m.kind == mediaText:
		return "text/plain"
	default:
		return "application/octet-stream"
	}
}
