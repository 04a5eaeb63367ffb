package pipeline

import (
	"encoding/json"
	"strings"
)

// maxDescription is the maximum length of a composite's description, in bytes.
const maxDescription = 700

// toolDescription returns the description of a composite: its steps and its fixed literals. It does not change from use to use, because it is
// at the beginning of prompts, which providers cache.
func toolDescription(d document, fixed []literal) string {
	var parts []string
	if !d.hasSource() {
		parts = append(parts, "takes the rows of input_ref")
	}
	for i := range d {
		if text := d.describeStep(i); text != "" {
			parts = append(parts, text)
		}
	}
	text := strings.Join(parts, ", ")
	if text != "" {
		text = strings.ToUpper(text[:1]) + text[1:] + ". "
	}
	var values []string
	for _, l := range fixed {
		values = append(values, l.name+" = "+shortText(string(l.value)))
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

// describeStep returns a few words for what a step does.
func (d document) describeStep(i int) string {
	fields := func(members ...string) string { return joinFields(d.fields(i, members...)) }
	switch d.stepName(i) {
	case "http_request":
		_, address, _ := strings.Cut(d.text(i, "url"), "://")
		return "fetches rows from " + shortText(address)
	case "table_sort":
		if d.text(i, "order") == "desc" {
			return "sorts by " + fields("field", "fields") + ", descending"
		}
		return "sorts by " + fields("field", "fields")
	case "table_filter":
		return "keeps rows by " + joinFields(d.comparedFields(i))
	case "table_select":
		return "keeps the fields " + fields("fields")
	case "top_k":
		return "takes the first rows"
	case "groupby":
		return "groups by " + fields("by")
	case "join":
		return "joins on " + shortText(d.text(i, "on"))
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

// joinFields returns the first five fields as a text.
func joinFields(fields []string) string {
	if len(fields) == 0 {
		return "nothing"
	}
	const maxFields = 5
	var texts []string
	for _, f := range fields[:min(len(fields), maxFields)] {
		texts = append(texts, shortText(f))
	}
	if len(fields) > maxFields {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

// fields returns the fields that step i names: those of the first of the members that is a string or a list of strings.
func (d document) fields(i int, members ...string) []string {
	for _, m := range members {
		var list []string
		switch raw := d[i][m]; {
		case len(raw) == 0:
			continue
		case raw[0] == '"':
			return []string{d.text(i, m)}
		case json.Unmarshal(raw, &list) == nil:
			return list
		}
	}
	return nil
}

// comparedFields returns the fields that a filter compares, each once.
func (d document) comparedFields(i int) []string {
	c := conditionMapper{visit: keepValue}
	_, _ = c.mapNode(d[i]["condition"], false) // the fields up to an error are enough
	return c.fields
}
