package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const (
	toolName       = "execute_pipeline"
	defaultSession = "offline"
	maxSteps       = 50 // the tool's
)

// pipelineArgs are the arguments of execute_pipeline. The steps of an earlier call are carried as they were.
type pipelineArgs struct {
	SessionID string            `json:"session_id"`
	Pipeline  []json.RawMessage `json:"pipeline"`
	InputRef  string            `json:"input_ref,omitempty"`
}

// planner turns an intent into calls of execute_pipeline.
type planner struct {
	in         *intent
	memory     *memory
	flightsURL string

	fetched []string          // where the rows that joins need are, as far as they were fetched
	fetches []json.RawMessage // the requests for them, in order
}

// trouble is why there is no call, in words.
type trouble string

const (
	noRows   trouble = "I understood what to do with the rows, but there are none yet in this conversation. Fetch some first.\n"
	noAPI    trouble = "I understood that you look for flights, but no flights API is configured here. Give me a URL to fetch.\n"
	tooMuch  trouble = "That is more than 50 steps, which is more than one pipeline may have.\n"
	notKept  trouble = "The rows that I fetched to join are not stored anywhere, so I cannot join them.\n"
	noResult trouble = "I do not know which result you mean: there is no such result in this conversation. Fetch some rows first, or name another.\n"
)

// plan returns the arguments of the next call: first those that fetch what joins need, one behind the other, then the pipeline. refs are
// the references of what was fetched for joins so far. fetches is how many calls come before the pipeline.
func plan(in *intent, m *memory, flightsURL string, refs []string) (args json.RawMessage, fetches int, because trouble) {
	p := &planner{in: in, memory: m, flightsURL: flightsURL, fetched: refs}
	whole, because := p.whole()
	if because != "" {
		return nil, 0, because
	}
	if len(refs) < len(p.fetches) {
		whole = p.arguments("", p.fetches[len(refs):len(refs)+1])
	}
	if len(whole.Pipeline) > maxSteps {
		return nil, 0, tooMuch
	}
	raw, err := encode(whole)
	if err != nil { // cannot be: the lexer makes nothing but valid JSON values
		return nil, 0, noRows
	}
	return raw, len(p.fetches), ""
}

func (p *planner) arguments(ref string, steps []json.RawMessage) pipelineArgs {
	session := p.memory.session
	if session == "" {
		session = defaultSession
	}
	return pipelineArgs{SessionID: session, Pipeline: append([]json.RawMessage{}, steps...), InputRef: ref}
}

// whole is the pipeline, with empty references for what is still to be fetched.
func (p *planner) whole() (pipelineArgs, trouble) {
	var prog program
	var carried []json.RawMessage
	ref := ""
	switch from := &p.in.from; {
	case from.fetches():
		s, columns, because := p.request(from)
		if because != "" {
			return pipelineArgs{}, because
		}
		prog.columns = columns
		prog.add(s)
	case from.ref != "" || from.pick != nil:
		kept, ok := p.memory.find(from)
		if !ok {
			return pipelineArgs{}, noResult
		}
		ref, prog.columns = kept.ref, kept.columns
	case p.memory.rerun != nil: // rows that have no reference are made again
		carried, ref = p.memory.rerun.Pipeline, p.memory.rerun.InputRef
	default:
		kept, ok := p.memory.find(&source{pick: &pick{}})
		if !ok {
			return pipelineArgs{}, noRows
		}
		ref, prog.columns = kept.ref, kept.columns
	}
	for i := range p.in.stages {
		if j := p.in.stages[i].join; j != nil {
			if because := p.join(&prog, j); because != "" {
				return pipelineArgs{}, because
			}
			if len(prog.steps) == 1 && p.in.from.ref != "" { // two references: one on each side of the join
				prog.steps[0].Left, ref = ref, ""
			}
		}
		prog.stage(&p.in.stages[i])
	}
	steps := append([]json.RawMessage{}, carried...)
	for i := range prog.steps {
		raw, err := encode(prog.steps[i])
		if err != nil {
			return pipelineArgs{}, noRows
		}
		steps = append(steps, raw)
	}
	return p.arguments(ref, steps), ""
}

// request is the step that fetches a source, and the columns of its rows; nil where they are not known.
func (p *planner) request(from *source) (step, []string, trouble) {
	s := step{Step: "http_request", URL: from.url, Method: "GET", Params: from.params}
	if from.post {
		s.Method = "POST"
	}
	if from.url != "" {
		return s, nil, ""
	}
	if p.flightsURL == "" {
		return step{}, nil, noAPI
	}
	s.URL = p.flightsURL
	if from.api != apiFlights {
		s.URL = p.flightsURL[:strings.LastIndex(p.flightsURL, "/")+1] + from.api
	}
	if from.format != "" {
		s.URL += "." + from.format
	}
	if from.api == apiFlights {
		s.Params = map[string]json.RawMessage{}
		if from.origin != "" {
			s.Params["origin"], s.Params["dest"] = jsonString(from.origin), jsonString(from.dest)
		}
		if from.count > 0 {
			s.Params["count"] = encoded(from.count, nil)
		}
	}
	if from.post {
		return s, nil, ""
	}
	return s, apiColumns(from.api), ""
}

// join adds a join. What it joins must be stored: a source that has to be requested is, before the pipeline runs.
func (p *planner) join(prog *program, j *joining) trouble {
	s := step{Step: "join"}
	if j.left {
		s.How = "left"
	}
	others, because := p.stored(&j.with)
	if because != "" {
		return because
	}
	s.Right = others.ref
	left, right := joinKeys(j, prog.columns, &others)
	if s.On = left; left != right {
		s.On = left + "=" + right
	}
	prog.add(s)
	if prog.columns != nil && others.columns != nil {
		prog.columns = joined(prog.columns, others.columns, left, right)
	} else {
		prog.columns = nil
	}
	return ""
}

// stored is where the rows of a source are.
func (p *planner) stored(from *source) (kept, trouble) {
	if !from.fetches() {
		found, ok := p.memory.find(from)
		if !ok {
			return kept{}, noResult
		}
		return found, ""
	}
	s, columns, because := p.request(from)
	if because != "" {
		return kept{}, because
	}
	raw, err := encode(s)
	if err != nil {
		return kept{}, noRows
	}
	k := kept{columns: columns, api: from.api}
	if n := len(p.fetches); n < len(p.fetched) {
		k.ref = p.fetched[n]
	}
	p.fetches = append(p.fetches, raw)
	return k, ""
}

// joinKeys are the fields on which two sides are joined. Without any in the prompt, those that usually go together.
func joinKeys(j *joining, columns []string, others *kept) (left, right string) {
	left, right = j.on[0], j.on[1]
	if left == "" {
		left, right = usualKeys(columns, others)
	}
	return columnOf(left, columns), columnOf(right, others.columns)
}

func usualKeys(columns []string, others *kept) (left, right string) {
	switch others.api {
	case apiAirlines:
		return "airline_code", "code"
	case apiBookings:
		return "id", "flight_id"
	case apiFlights:
		return "flight_id", "id"
	}
	for _, c := range columns {
		if slices.Contains(others.columns, c) {
			return c, c
		}
	}
	return "id", "id"
}

// joined are the columns behind a join.
func joined(left, right []string, on, other string) []string {
	out := append([]string{}, left...)
	for _, c := range right {
		switch {
		case c == other && on == other:
		case slices.Contains(left, c):
			out = append(out, c+"_right")
		default:
			out = append(out, c)
		}
	}
	return out
}

// encode is json.Marshal without the HTML escapes: arguments are shown to people.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
