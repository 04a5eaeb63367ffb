package openapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Operation is an operation of a document with everything that it refers to. It is immutable.
type Operation struct {
	ID     string // may be empty
	Method string // upper case
	Path   string // the template

	// Security has the alternative requirements. An empty requirement means that no credentials are needed. Declared is false if the document
	// does not mention security.
	Security []Requirement
	Declared bool

	params    []*param
	ignored   []string // names of header parameters that OpenAPI ignores
	body      *body
	responses map[string]map[string]string // names of schemas, by status and media type
	servers   []server
	base      *url.URL // of the document; may be nil

	request, response *validator
	weight            int // number of values in the schemas
}

// Requirement is a list of schemes that are all required.
type Requirement []Scheme

// Scheme is an authentication scheme.
type Scheme struct {
	Name   string // of the scheme in the document
	Type   string // apiKey, http, oauth2, openIdConnect, mutualTLS
	In     string // apiKey: header, query, cookie
	Key    string // apiKey: the name of the header, parameter or cookie
	Scheme string // http: basic, bearer, …, in lower case
}

// String returns a description for users.
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

// String returns the descriptions of the schemes.
func (r Requirement) String() string {
	names := make([]string, len(r))
	for i := range r {
		names[i] = r[i].String()
	}
	return strings.Join(names, " and ")
}

// Safe reports whether the operation only reads (RFC 9110 §9.2.1).
func (o *Operation) Safe() bool { return SafeMethod(o.Method) }

// SafeMethod reports whether requests of a method only read.
func SafeMethod(method string) bool {
	return slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, method)
}

// Repeatable reports whether repeating a request has no further effect (RFC 9110 §9.2.2).
func (o *Operation) Repeatable() bool {
	return o.Safe() || o.Method == http.MethodPut || o.Method == http.MethodDelete
}

// param is a parameter. In and Name together are unique.
type param struct {
	Name, In, Style         string
	Required, AllowReserved bool
	Explode                 *bool
	Description             string

	schema string // name in the request's schemas; may be empty
	media  string // the media type of a parameter with content; may be empty
	types  []string
}

func (p *param) qualifiedName() string { return p.In + "." + p.Name }

// describe returns the location, types and description of the parameter for an error.
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

// body has the media types of a request body, the preferred one first.
type body struct {
	Required bool

	media []media
}

type media struct {
	name     string // in the document
	kind     mediaKind
	schema   string
	encoding map[string]encoding // by property
	members  map[string]bool     // from [schemaSet.membersOf]
	isOpen   bool                // other members are allowed
}

// encoding is the encoding of a property in a form.
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

// kindOf returns how a body of a media type or range is written; ok is false if it is not supported.
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

// contentType returns the Content-Type of a request.
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
