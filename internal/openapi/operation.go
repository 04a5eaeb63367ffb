package openapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Operation is one operation of a document, with all that it refers to. It is not changed once made.
type Operation struct {
	ID     string // "" when the document gives none
	Method string // upper case
	Path   string // the template

	// Security are the alternatives, each of schemes that are all needed; an alternative of none needs nothing. Declared is false when the
	// document says nothing of security.
	Security []Requirement
	Declared bool

	params    []*param
	ignored   []string // header parameters that OpenAPI says to ignore
	body      *body
	responses *openapi3.Responses
	servers   []*openapi3.Server
	base      *url.URL // of the document; nil: it has no address

	request, response *validator
	faults            []string // of the response's schemas
	weight            int      // values of the schemas
}

// Requirement are schemes that are needed together.
type Requirement []Scheme

// Scheme is one way to authenticate.
type Scheme struct {
	Name   string // of the scheme in the document
	Type   string // apiKey, http, oauth2, openIdConnect, mutualTLS
	In     string // apiKey: header, query, cookie
	Key    string // apiKey: of that header, parameter, cookie
	Scheme string // http: lower case: basic, bearer, …
}

// String says what the scheme wants, for people.
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

// String names what is needed together.
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

// param is a parameter. In and name together are unique.
type param struct {
	*openapi3.Parameter

	schema string // of the request's; "" for none
	media  string // of a parameter that is written as content, "" otherwise
	types  []string
}

func (p *param) qualified() string { return p.In + "." + p.Name }

// about describes the parameter to who left it out.
func (p *param) about() string {
	text := p.In
	if len(p.types) > 0 {
		text += ", " + strings.Join(p.types, " or ")
	}
	if words := strings.Join(strings.Fields(p.Description), " "); words != "" {
		text += ": " + words
	}
	return text
}

// body are the media types that an operation takes, the most preferred first.
type body struct {
	required bool
	media    []media
}

type media struct {
	name     string // as the document has it
	kind     mediaKind
	schema   string
	encoding openapi3.Encodings
	// members are the properties that the schema names, read only ones left out, by name; nil when it is no object.
	members map[string]member
	open    bool // it takes members of any other name
}

// member is what the encoding of a form wants to know of a property.
type member struct {
	types  []string
	binary bool // its content is bytes
	items  bool // it is a list of such
}

type mediaKind int

const (
	mediaJSON mediaKind = iota
	mediaForm
	mediaMultipart
	mediaText
	mediaBytes
)

// kindOf says how a body of a media type, or range of such, is written.
func kindOf(name string) (mediaKind, bool) {
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

// sent is the media type that a request names.
func (m *media) sent() string {
	if strings.Contains(m.name, "*") {
		if m.kind == mediaJSON {
			return "application/json"
		}
		if m.kind == mediaText {
			return "text/plain"
		}
		return "application/octet-stream"
	}
	return m.name
}
