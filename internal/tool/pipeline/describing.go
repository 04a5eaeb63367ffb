package pipeline

import (
	"encoding/json"
	"strings"
)

// maxDescription bounds what a model is told of a composite, in bytes.
const maxDescription = 700

// toolDescription says what a composite does, and with which values that a caller does not give. It says nothing that changes from use
// to use: it is in the front of prompts, which providers cache.
func toolDescription(d document, fixed []literal) string {
	var parts []string
	if !d.hasOwnRows() {
		parts = append(parts, "takes the rows of input_ref")
	}
	for i := range d {
		if words := d.describe(i); words != "" {
			parts = append(parts, words)
		}
	}
	text := strings.Join(parts, ", ")
	if text != "" {
		text = strings.ToUpper(text[:1]) + text[1:] + ". "
	}
	var values []string
	for _, l := range fixed {
		values = append(values, l.name+" = "+shortQuote(string(l.value)))
	}
	if len(values) > 0 {
		text += "Always with " + strings.Join(values, ", ") + ". "
	}
	const end = "Made of a pipeline that was used repeatedly; answers as " + ToolName + " does."
	if len(text)+len(end) > maxDescription {
		text = strings.ToValidUTF8(text[:maxDescription-len(end)-len("… ")], "") + "… "
	}
	return text + end
}

// describe says in a few words what a step does.
func (d document) describe(i int) string {
	fields := func(members ...string) string { return list(d.fields(i, members...)) }
	switch d.stepName(i) {
	case "http_request":
		_, address, _ := strings.Cut(d.text(i, "url"), "://")
		return "fetches rows from " + shortQuote(address)
	case "table_sort":
		if d.text(i, "order") == "desc" {
			return "sorts by " + fields("field", "fields") + ", descending"
		}
		return "sorts by " + fields("field", "fields")
	case "table_filter":
		return "keeps rows by " + list(d.compared(i))
	case "table_select":
		return "keeps the fields " + fields("fields")
	case "top_k":
		return "takes the first rows"
	case "groupby":
		return "groups by " + fields("by")
	case "join":
		return "joins on " + shortQuote(d.text(i, "on"))
	case "jq_transform":
		return "transforms with jq"
	case "regex_extract":
		return "extracts from " + fields("field")
	case "parse_date":
		return "reads the dates of " + fields("field")
	default:
		return ""
	}
}

// list shows some fields, the first five.
func list(fields []string) string {
	if len(fields) == 0 {
		return "nothing"
	}
	const most = 5
	var texts []string
	for _, f := range fields[:min(len(fields), most)] {
		texts = append(texts, shortQuote(f))
	}
	if len(fields) > most {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

// fields lists the strings of the first of some members that is there: of a string, or of a list of them.
func (d document) fields(i int, members ...string) []string {
	for _, m := range members {
		var several []string
		switch raw := d[i][m]; {
		case len(raw) == 0:
			continue
		case raw[0] == '"':
			return []string{d.text(i, m)}
		case json.Unmarshal(raw, &several) == nil:
			return several
		}
	}
	return nil
}

// compared lists the fields of a filter's tests, each once.
func (d document) compared(i int) []string {
	c := conditionWalk{visit: keepValue}
	_, _ = c.node(d[i]["condition"], false) // the fields up to an error are enough
	return c.fields
}
