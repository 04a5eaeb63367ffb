package openapi

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Server says which server is asked. The zero value is the document's first, with its variables' defaults.
type Server struct {
	URL       string            `json:"url,omitempty"`       // in place of those of the document
	Variables map[string]string `json:"variables,omitempty"` // of the address
}

// braces are the variables of a server's address and the parameters of a path.
var braces = regexp.MustCompile(`\{([^{}]*)\}`)

// serverURL is the absolute address of the server, without a slash at its end.
func (o *Operation) serverURL(choice Server) (*url.URL, error) {
	template := choice.URL
	known := map[string]bool{}
	values := map[string]string{}
	if template == "" && len(o.servers) > 0 {
		template = o.servers[0].URL
		for name, v := range o.servers[0].Variables {
			if v == nil {
				continue
			}
			known[name], values[name] = true, v.Default
			given, has := choice.Variables[name]
			if has && len(v.Enum) > 0 && !slices.Contains(v.Enum, given) {
				return nil, agent.Invalid("servers", "the variable %q is %q: want one of %s",
					clip.Bytes(name, 60), clip.Bytes(given, 60), quoted(v.Enum[:min(20, len(v.Enum))]))
			}
		}
	}
	for _, name := range sorted(choice.Variables) {
		if choice.URL == "" && !known[name] {
			return nil, agent.Invalid("servers", "the server %q has no variable %q", clip.Bytes(template, 200), clip.Bytes(name, 60))
		}
		values[name] = choice.Variables[name]
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

// expand fills a path's parameters with values that are escaped already.
func expand(path string, values map[string]string) (string, error) {
	var missing []string
	var b strings.Builder
	rest := path
	for {
		at := braces.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		name := rest[at[2]:at[3]]
		value, ok := values[name]
		if !ok {
			missing = append(missing, "{"+clip.Bytes(name, 60)+"}")
		}
		b.WriteString(literal(rest[:at[0]]) + value)
		rest = rest[at[1]:]
	}
	b.WriteString(literal(rest))
	if missing != nil {
		return "", agent.Invalid("", "the path %q has %s, but the operation no such parameter in its path", clip.Bytes(path, 200), strings.Join(missing, ", "))
	}
	return b.String(), nil
}

// literal escapes what stands in a path itself.
func literal(text string) string { return (&url.URL{Path: text}).EscapedPath() }

// climbs reports whether a path, escaped or not, has segments that lead elsewhere on the server.
func climbs(text string) bool {
	for range 3 { // escaped twice, it still climbs behind some proxies
		for _, segment := range strings.FieldsFunc(text, func(c rune) bool { return c == '/' || c == '\\' }) {
			if segment == "." || segment == ".." {
				return true
			}
		}
		plain, err := url.PathUnescape(text)
		if err != nil || plain == text {
			return false
		}
		text = plain
	}
	return false
}
