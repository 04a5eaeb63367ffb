package pipeline

import (
	"cmp"
	"net"
	"net/url"
	urlpath "path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// The bounds of generated names, in bytes. A store may append a number to the name of a tool.
const (
	maxWord     = 24
	maxToolName = 56
	maxText     = 40 // of text that a description quotes from a pipeline
)

// snakeCase returns a name of a-z, 0-9 and _ that begins with a letter: departure_date for departureDate, filter_price for filter[price].
func snakeCase(text string) string {
	var b strings.Builder
	previous := rune(0)
	for _, r := range text {
		small := unicode.ToLower(r)
		switch {
		case r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r):
			small = '_'
		case unicode.IsUpper(r) && (unicode.IsLower(previous) || unicode.IsDigit(previous)):
			b.WriteByte('_')
		}
		previous = r
		if small != '_' || b.Len() > 0 && !strings.HasSuffix(b.String(), "_") {
			b.WriteRune(small)
		}
		if b.Len() >= maxWord {
			break
		}
	}
	name := strings.Trim(b.String(), "_")
	switch {
	case name == "":
		return "value"
	case name[0] >= '0' && name[0] <= '9':
		return "n" + name
	default:
		return name
	}
}

// comparisonName returns the parameter name for the value of a comparison: max_price for price < 500.
func comparisonName(field, op string, isNegated bool) string {
	name := snakeCase(lastSegment(field))
	switch effectiveOperator(op, isNegated) {
	case "<", "<=":
		return "max_" + name
	case ">", ">=":
		return "min_" + name
	case "!=":
		return "not_" + name
	case "in":
		return name + "_in"
	case "contains":
		return name + "_contains"
	default:
		return name
	}
}

func comparisonDescription(field, op string, isNegated bool) string {
	description := "Compared with " + shortText(field) + " by " + op
	if isNegated {
		return description + ", negated"
	}
	return description
}

// effectiveOperator returns the operator, or its opposite if it is negated and has one.
func effectiveOperator(op string, isNegated bool) string {
	if !isNegated {
		return op
	}
	switch op {
	case "<":
		return ">="
	case "<=":
		return ">"
	case ">":
		return "<="
	case ">=":
		return "<"
	case "=":
		return "!="
	case "!=":
		return "="
	default:
		return op
	}
}

// lastSegment returns the last part of a path: total for price.total.
func lastSegment(field string) string { return field[strings.LastIndexByte(field, '.')+1:] }

// shortText returns a text of a pipeline, shortened and without markup. All agents of a tenant read the descriptions of composites, and the
// models that write pipelines may repeat text of others in them.
func shortText(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune("<>`\\{}", r) {
			return -1
		}
		return r
	}, text)
	return clip.Bytes(text, maxText)
}

// toolName returns a name for a composite that says what its steps do: fetch_flights_by_price_top.
func toolName(d document) string {
	var parts []string
	if !d.hasSource() {
		parts = append(parts, "rows")
	}
	for i := range d {
		parts = append(parts, d.nameStep(i))
	}
	name := ""
	for _, part := range parts {
		switch {
		case part == "" || len(name)+1+len(part) > maxToolName:
		case name == "":
			name = part
		default:
			name += "_" + part
		}
	}
	return name
}

// nameStep returns the part of a tool's name for one step, which may be empty.
func (d document) nameStep(i int) string {
	switch d.stepName(i) {
	case "http_request":
		return "fetch_" + urlTopic(d.text(i, "url"))
	case "table_sort":
		name := "by_value"
		if fields := d.fields(i, "field", "fields"); len(fields) > 0 {
			name = "by_" + snakeCase(lastSegment(fields[0]))
		}
		if d.text(i, "order") == "desc" {
			name += "_desc"
		}
		return name
	case "table_filter":
		return "with_" + nameFields(d.comparedFields(i))
	case "top_k":
		return "top"
	case "groupby":
		return d.nameGroup(i)
	case "join":
		return "joined_on_" + snakeCase(d.text(i, "on"))
	case "jq_transform":
		return "transformed"
	case "regex_extract":
		return "extract_" + snakeCase(lastSegment(d.text(i, "field")))
	default:
		return ""
	}
}

// nameGroup returns the part of a tool's name for a groupby: sum_revenue_per_category.
func (d document) nameGroup(i int) string {
	name := d.text(i, "agg")
	if field := d.text(i, "field"); field != "" {
		name = strings.TrimPrefix(name+"_"+snakeCase(lastSegment(field)), "_")
	}
	if by := d.fields(i, "by"); len(by) > 0 {
		return cmp.Or(name, "totals") + "_per_" + nameFields(by)
	}
	return cmp.Or(name, "totals")
}

// nameFields joins the names of the first two fields: category_and_year.
func nameFields(fields []string) string {
	var names []string
	for _, f := range fields[:min(len(fields), 2)] {
		names = append(names, snakeCase(lastSegment(f)))
	}
	return strings.Join(names, "_and_")
}

var (
	genericWord = regexp.MustCompile(`^(api|rest|v[0-9.]+|search|query|list|items|data|json|csv|index|public|download|export|www)$`)
	wordPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
)

// urlTopic returns the last telling word of a URL: flights for https://api.flights.com/v1/search.
func urlTopic(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "data"
	}
	segments := strings.Split(strings.TrimSuffix(u.Path, urlpath.Ext(u.Path)), "/")
	if host := strings.Split(u.Hostname(), "."); net.ParseIP(u.Hostname()) == nil && len(host) > 1 {
		segments = append(host[:len(host)-1], segments...)
	}
	for _, s := range slices.Backward(segments) {
		if wordPattern.MatchString(s) && !genericWord.MatchString(strings.ToLower(s)) {
			return snakeCase(s)
		}
	}
	return "data"
}

// uniqueName returns the name, with a number appended if it is taken, and marks the result as taken.
func uniqueName(name string, taken map[string]bool) string {
	unique := name
	for n := 2; taken[unique]; n++ {
		unique = name + "_" + strconv.Itoa(n)
	}
	taken[unique] = true
	return unique
}
