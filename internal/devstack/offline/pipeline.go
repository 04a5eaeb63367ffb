package offline

import (
	"encoding/json"
	"regexp"
	"strings"
)

const noRows = "I understood what to do with the rows, but there are none yet in this conversation. Fetch some first.\n"

var (
	followUp    = regexp.MustCompile(`(?i)^(?:now|and|then|sort|filter|only|top|first|show)\b`)
	route       = regexp.MustCompile(`\b[A-Z]{3} to [A-Z]{3}\b`)
	fetchTwice  = regexp.MustCompile(`(?i)^fetch twice\b`)
	listComma   = regexp.MustCompile(`,? and |, `)
	placeholder = regexp.MustCompile(`\$(?:api|\d|\[\d\])`)
)

// pipeline answers a message about rows with a call of execute_pipeline. ok is false for any other message.
func (m *model) pipeline(c *chat) (r reply, ok bool) {
	var steps []string
	fetches := false
	for group, choices := range m.clauses {
		for _, p := range choices {
			if match := p.pattern.FindStringSubmatch(c.message); match != nil {
				steps = append(steps, m.fill(p.template, match))
				fetches = fetches || group == 0
				break
			}
		}
	}
	input := ""
	switch {
	case len(steps) == 0 || !fetches && !followUp.MatchString(c.message):
		return reply{}, false
	case !fetches && c.lastRef == "":
		return reply{text: noRows}, true
	case !fetches:
		input = `,"input_ref":` + quote(c.lastRef)
	}
	args := `{"session_id":` + quote(c.session) + `,"pipeline":[` + strings.Join(steps, ",") + `]` + input + `}`
	r = c.call(pipelineTool, args)
	if len(r.calls) == 1 && fetchTwice.MatchString(c.message) {
		r.calls = append(r.calls, c.toolCall(pipelineTool, args, 1))
	}
	return r, true
}

// needsRoute reports whether the message asks for flights without a route.
func (m *model) needsRoute(message string) bool {
	sources := m.clauses[0]
	return sources[len(sources)-1].pattern.MatchString(message) && !route.MatchString(message)
}

// fill replaces the placeholders of a template by the submatches of a pattern.
func (m *model) fill(template string, match []string) string {
	return placeholder.ReplaceAllStringFunc(template, func(name string) string {
		switch {
		case name == "$api":
			return strings.TrimSuffix(m.cfg.FlightsURL, "/flights")
		case name[1] == '[':
			list, _ := json.Marshal(listComma.Split(match[name[2]-'0'], -1)) // strings always encode
			return string(list)
		default:
			text := quote(match[name[1]-'0'])
			return text[1 : len(text)-1]
		}
	})
}

// quote returns a JSON string. It does not escape < and >, because people read the arguments of calls.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // strings always encode
	return strings.TrimSuffix(b.String(), "\n")
}
