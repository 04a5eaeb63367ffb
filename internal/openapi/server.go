package openapi

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Server selects the server of a request. The zero value selects the first server of the document with the defaults of its variables.
type Server struct {
	URL       string            `json:"url,omitempty"`       // replaces the server of the document
	Variables map[string]string `json:"variables,omitempty"` // values of the variables in the URL
}

// server is a server of the document.
type server struct {
	URL       string
	Variables map[string]*struct {
		Default string
		Enum    []string
	}
}

// braces matches the variables in a server's URL and the parameters in a path.
var braces = regexp.MustCompile(`\{([^{}]*)\}`)

// serverURL returns the absolute URL of the server.
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
	if u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, agent.Invalid("servers", "the server %q is no http or https URL", clip.Bytes(template, 200))
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// values returns the values of the server's variables: those of overrides, or else the defaults.
func (s *server) values(overrides map[string]string) (map[string]string, error) {
	values := map[string]string{}
	for name, v := range s.Variables {
		if v != nil {
			values[name] = v.Default
		}
	}
	for _, name := range sortedKeys(overrides) {
		if _, exists := values[name]; !exists {
			return nil, agent.Invalid("servers", "the server %q has no variable %q", clip.Bytes(s.URL, 200), clip.Bytes(name, 60))
		}
		if allowed := s.Variables[name].Enum; len(allowed) > 0 && !slices.Contains(allowed, overrides[name]) {
			return nil, agent.Invalid("servers", "the variable %q is %q: want one of %s",
				clip.Bytes(name, 60), clip.Bytes(overrides[name], 60), quoteNames(allowed[:min(20, len(allowed))]))
		}
		values[name] = overrides[name]
	}
	return values, nil
}

// expandPath replaces the parameters of a path by escaped values.
func expandPath(path string, values map[string]string) (string, error) {
	var missing []string
	var b strings.Builder
	end := 0
	for _, match := range braces.FindAllStringSubmatchIndex(path, -1) {
		name := path[match[2]:match[3]]
		value, ok := values[name]
		if !ok {
			missing = append(missing, "{"+clip.Bytes(name, 60)+"}")
		}
		b.WriteString(escapePath(path[end:match[0]]) + value)
		end = match[1]
	}
	b.WriteString(escapePath(path[end:]))
	if missing != nil {
		return "", agent.Invalid("", "the path %q has %s, but the operation no such parameter in its path", clip.Bytes(path, 200), strings.Join(missing, ", "))
	}
	return b.String(), nil
}

// escapePath escapes a literal part of a path.
func escapePath(text string) string { return (&url.URL{Path: text}).EscapedPath() }

// hasDotSegment reports whether a path, escaped or not, has a segment "." or "..", which would lead to another path on the server.
func hasDotSegment(text string) bool {
	for range 3 { // some proxies decode twice
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
