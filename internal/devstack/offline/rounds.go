package offline

import "fmt"

// round is one message with calls, and what the tools answered.
type round struct {
	calls   []toolCall
	results []string
}

// roundsSince are the rounds behind the user's last message.
func roundsSince(messages []message) []round {
	var out []round
	for _, m := range messages[lastUser(messages)+1:] {
		switch {
		case m.Role == "assistant" && len(m.ToolCalls) > 0:
			out = append(out, round{calls: m.ToolCalls})
		case m.Role == "tool" && len(out) > 0:
			last := &out[len(out)-1]
			last.results = append(last.results, m.text)
		}
	}
	return out
}

// goOn answers when tools have answered: with the next call where there is one to make, else in words. There is one call for each thing
// to fetch, one for the pipeline and one correction, so that it always ends.
func (m *Model) goOn(req *request, in *intent, mem *memory) reply {
	if text, ok := errandAnswer(req.Messages); ok {
		return reply{text: text}
	}
	results := trailingResults(req.Messages)
	var refs []string
	var mended correction
	rounds := roundsSince(req.Messages)
	for i, r := range rounds {
		if len(r.calls) != 1 || len(r.results) != 1 || r.calls[0].Function.Name != toolName || !req.offers(toolName) {
			break
		}
		ended := i == len(rounds)-1
		if f, failure := readFailure(r.results[0]); failure {
			c, ok := correct(r.calls[0].Function.Arguments, f)
			switch {
			case !ok || mended.args != nil:
			case ended:
				return calling(req, toolName, c.args, 1)
			default:
				mended = c
				continue
			}
			break
		}
		_, fetches, because := plan(in, mem, m.cfg.FlightsURL, refs)
		if because != "" || len(refs) >= fetches {
			break
		}
		ref := keptIn(r.results[0]).ref
		if ref == "" {
			return reply{text: string(notKept)}
		}
		refs = append(refs, ref)
		if !ended {
			continue
		}
		if args, _, because := plan(in, mem, m.cfg.FlightsURL, refs); because == "" {
			return calling(req, toolName, args, 1)
		}
	}
	text := toolAnswer(results, in)
	if mended.args != nil {
		text += fmt.Sprintf("\nThere is no field %q, so I took %q.\n", mended.was, mended.now)
	}
	if in.assumed {
		text += "\nNo route was given, so these are flights from " + in.from.origin + " to " + in.from.dest + ".\n"
	}
	return reply{text: text}
}
