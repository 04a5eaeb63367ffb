package openapi

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Server says which server is asked. The zero value is the document's first, with the defaults of its variables.
type Server struct {
	URL       string            `json:"url,omitempty"`       // in place of those of the document
	Variables map[string]string `json:"variables,omitempty"` // of the address
}

// server is a server of the document.
type server struct {
	URL       string
	Variables map[string]*struct {
		Default string
		Enum    []string
	}
}

// braces matches the variables of a server's address and the parameters of a path.
var braces = regexp.MustCompile(`\{([^{}]*)\}`)

// serverURL returns the absolute address of the server.
func (o *Operation) serverURL(choice Server) (*url.URL, error) {
	template, values := choice.URL, choice.Variables
	if template == "" {
		var err error
		template = o.servers[0].URL
		if values, err = o.servers[0].values(choice.Variables); err != nil {
			return nil, err
		}
	}
	missing := ""
	text := braces.ReplaceAllStringFunc(template, func(variable string) string {
		value := values[variable[1:len(variable)-1]]
		if value == "" {
			missing = variable
		}
		return value
	})
	if missing != "" {
		return nil, agent.Invalid("servers", "the server %q has a variable %s without a value", clip.Bytes(template, 200), clip.Bytes(missing, 60))
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, agent.Invalid("servers", "the server %q is no URL", clip.Bytes(template, 200))
	}
	if !u.IsAbs() {
		if o.base == nil {
			return nil, agent.Invalid("servers", "the server %q is relative, and the document has no address that it is relative to", clip.Bytes(template, 200))
		}
		u = o.base.ResolveReference(u)
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, agent.Invalid("servers", "the server %q is no http or https URL", clip.Bytes(template, 200))
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// values returns the values of the server's variables: those given, and else the defaults.
func (s *server) values(given map[string]string) (map[string]string, error) {
	values := map[string]string{}
	for name, v := range s.Variables {
		if v != nil {
			values[name] = v.Default
		}
	}
	for _, name := range sortedKeys(given) {
		if _, known := values[name]; !known {
			return nil, agent.Invalid("servers", "the server %q has no variable %q", clip.Bytes(s.URL, 200), clip.Bytes(name, 60))
		}
		if allowed := s.Variables[name].Enum; len(allowed) > 0 && !slices.Contains(allowed, given[name]) {
			return nil, agent.Invalid("servers", "the variable %q is %q: want one of %s",
				clip.Bytes(name, 60), clip.Bytes(given[name], 60), quoteNames(allowed[:min(20, len(allowed))]))
		}
		values[name] = given[name]
	}
	return values, nil
}

// expandPath fills the parameters of a path with values that are escaped already.
func expandPath(path string, values map[string]string) (string, error) {
	var missing []string
	var b strings.Builder
	end := 0
	for _, at := range braces.FindAllStringSubmatchIndex(path, -1) {
		name := path[at[2]:at[3]]
		value, ok := values[name]
		if !ok {
			missing = append(missing, "{"+clip.Bytes(name, 60)+"}")
		}
		b.WriteString(escapePath(path[end:at[0]]) + value)
		end = at[1]
	}
	b.WriteString(escapePath(path[end:]))
	if missing != nil {
		return "", agent.Invalid("", "the path %q has %s, but the operation no such parameter in its path", clip.Bytes(path, 200), strings.Join(missing, ", "))
	}
	return b.String(), nil
}

// escapePath escapes the parts of a path that are no parameters.
func escapePath(text string) string { return (&url.URL{Path: text}).EscapedPath() }

// hasDotSegment reports whether a path, escaped or not, has a segment "." or "..", which leads elsewhere on the server.
func hasDotSegment(text string) bool {
	for range 3 { // some proxies decode what is escaped twice
		for _, segment := range strings.FieldsFunc(text, func(c rune) bool { return c == '/' || c == '\\' }) {
			if segment == "." || segment == ".." {
				return true
			}
		}
		decoded, err := url.PathUnescape(text)
		if err != nil || decoded == text {
			return false
		}
		text = decoded
	}
	return false
}
