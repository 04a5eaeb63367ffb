package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

const (
	contextOpen     = "<session_context>"
	contextClose    = "</session_context>"
	maxContextBytes = 256 << 10 // bytes
	maxResults      = 200
)

var (
	sessionLine = regexp.MustCompile(`(?im)^\s*session(?:[ _]id)?:\s*(\S{1,128})\s*$`)
	storedRef   = regexp.MustCompile(`(?:cas://[A-Za-z0-9]+:[0-9A-Fa-f]+|artifact://[A-Za-z0-9._:-]*[A-Za-z0-9])`)
)

// kept are rows that have a reference.
type kept struct {
	ref     string
	columns []string // nil: not known
	node    string   // of the workflow
	api     string   // of the sample API, when they were just fetched from it
}

// memory is what the conversation holds already.
type memory struct {
	session string
	results []kept        // of this session, the oldest first
	nodes   []kept        // of the workflow that asks
	rerun   *pipelineArgs // of the last call, when its result has no reference
}

// known are the fields that the latest rows have.
func (m *memory) known() []string {
	var out []string
	for _, k := range slices.Concat(m.results, m.nodes) {
		out = append(out, k.columns...)
	}
	return out
}

// find returns the rows that a prompt means, unless they have to be fetched.
func (m *memory) find(from *source) (kept, bool) {
	all := append(slices.Clone(m.results), m.nodes...)
	if from.ref != "" {
		if i := slices.IndexFunc(all, func(k kept) bool { return k.ref == from.ref }); i >= 0 {
			return all[i], true
		}
		return kept{ref: from.ref}, true
	}
	if from.pick == nil {
		return kept{}, false
	}
	if node := from.pick.node; node != "" {
		i := slices.IndexFunc(m.nodes, func(k kept) bool { return strings.EqualFold(k.node, node) })
		if i < 0 {
			return kept{}, false
		}
		return m.nodes[i], true
	}
	list := m.results
	if len(list) == 0 {
		list = m.nodes
	}
	i := from.pick.nth - 1
	if i < 0 { // 0 is the latest, -1 the one before
		i += len(list)
	}
	if i < 0 || i >= len(list) {
		return kept{}, false
	}
	return list[i], true
}

// sessionContext is what the runtime tells of earlier results at the end of the user's message.
type sessionContext struct {
	LastResult     *contextResult  `json:"last_result"`
	EarlierResults []contextResult `json:"earlier_results"` // the newest first
	Previous       []struct {
		NodeID  string          `json:"node_id"`
		Ref     string          `json:"result_ref"`
		Preview json.RawMessage `json:"preview"`
	} `json:"previous_results"`
}

type contextResult struct {
	Ref    string `json:"ref"`
	Fields []struct {
		Name string `json:"name"`
	} `json:"fields"`
}

// splitContext cuts what the runtime appends from what the user wrote.
func splitContext(text string) (words, context string) {
	at := strings.LastIndex(text, contextOpen)
	if at < 0 {
		return text, ""
	}
	context, _, ok := strings.Cut(text[at+len(contextOpen):], contextClose)
	if !ok || len(context) > maxContextBytes {
		return text, ""
	}
	return strings.TrimRight(text[:at], " \t\r\n"), context
}

// recall reads the conversation before the last user message, and what that says of earlier results.
func recall(messages []message) *memory {
	m := &memory{}
	last := lastUser(messages)
	var turn kept // what the turn being read left; of several results, the last one
	for i := range messages {
		msg := &messages[i]
		switch {
		case msg.Role == "system" || msg.Role == "developer":
			if found := sessionLine.FindStringSubmatch(msg.text); found != nil {
				m.session = found[1]
			}
		case msg.Role == "user" && i <= last:
			m.add(turn)
			turn = kept{}
			if i == last && msg.context != "" {
				m.read(msg.context)
			}
		case i > last:
		case msg.Role == "assistant":
			for _, c := range msg.ToolCalls {
				var args pipelineArgs
				if c.Function.Name == toolName && json.Unmarshal([]byte(c.Function.Arguments), &args) == nil {
					m.rerun = &args
				}
			}
		case msg.Role == "tool":
			if _, failure := readFailure(msg.text); failure {
				m.rerun = nil
			} else if k := keptIn(msg.text); k.ref != "" {
				turn, m.rerun = k, nil
			}
		}
	}
	return m
}

// add remembers a result, once.
func (m *memory) add(k kept) {
	same := func(o kept) bool { return o.ref == k.ref }
	if i := slices.IndexFunc(m.results, same); i >= 0 {
		if m.results[i].columns == nil {
			m.results[i].columns = k.columns
		}
		return
	}
	if k.ref != "" && len(m.results) < maxResults {
		m.results = append(m.results, k)
	}
}

// read takes up a session context; one that is malformed says nothing.
func (m *memory) read(raw string) {
	var c sessionContext
	if json.Unmarshal([]byte(raw), &c) != nil {
		return
	}
	results := c.EarlierResults[:min(len(c.EarlierResults), maxResults)]
	slices.Reverse(results)
	if c.LastResult != nil {
		results = append(results, *c.LastResult)
	}
	for _, r := range results {
		k := kept{ref: r.Ref}
		for _, f := range r.Fields {
			k.columns = append(k.columns, f.Name)
		}
		m.add(k)
		m.rerun = nil
	}
	if l := c.LastResult; l != nil { // it is the latest, wherever the transcript had it
		i := slices.IndexFunc(m.results, func(k kept) bool { return k.ref == l.Ref })
		if i >= 0 {
			k := m.results[i]
			m.results = append(slices.Delete(m.results, i, i+1), k)
		}
	}
	for _, p := range c.Previous[:min(len(c.Previous), maxResults)] {
		if p.Ref != "" {
			m.nodes = append(m.nodes, kept{ref: p.Ref, node: p.NodeID, columns: sampleColumns(p.Preview)})
		}
	}
}

// keptIn is where the rows of a tool's result are stored, with an empty reference when they are not.
func keptIn(content string) kept {
	var d dataset
	if json.Unmarshal([]byte(content), &d) != nil {
		return kept{ref: storedRef.FindString(content)}
	}
	k := kept{ref: d.Ref}
	if k.ref == "" {
		k.ref = storedRef.FindString(content)
	}
	if len(d.Rows) > 0 {
		k.columns = memberNames(d.Rows[0])
	} else if d.Preview != nil && len(d.Preview.Sample) > 0 {
		k.columns = memberNames(d.Preview.Sample[0])
	}
	return k
}

// sampleColumns are the fields of the first row that a preview shows.
func sampleColumns(preview json.RawMessage) []string {
	var p struct {
		Sample []json.RawMessage `json:"sample"`
	}
	if json.Unmarshal(preview, &p) != nil || len(p.Sample) == 0 {
		return nil
	}
	return memberNames(p.Sample[0])
}

// lastUser is the position of the last user message, -1 without one.
func lastUser(messages []message) int {
	for i, message := range slices.Backward(messages) {
		if message.Role == "user" {
			return i
		}
	}
	return -1
}
