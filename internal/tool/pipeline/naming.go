package pipeline

import (
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

// The bounds of names that are made up, in bytes. A store may put a number behind a tool's.
const (
	maxWord     = 24
	maxToolName = 56
	maxShown    = 40 // what a description quotes of a pipeline
)

// snake returns a name of a-z, 0-9 and _ that begins with a letter: departureDate is departure_date, filter[price] filter_price.
func snake(text string) string {
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

// comparedName names the value of a comparison: max_price for price < 500.
func comparedName(field, op string, negated bool) string {
	name := snake(lastSegment(field))
	switch effectiveOperator(op, negated) {
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

func comparedAbout(field, op string, negated bool) string {
	about := "Compared with " + shortQuote(field) + " by " + op
	if negated {
		return about + ", negated"
	}
	return about
}

// effectiveOperator returns the operator that holds where the negated one does not.
func effectiveOperator(op string, negated bool) string {
	if !negated {
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

// lastSegment returns the last part of a path: total of price.total.
func lastSegment(field string) string { return field[strings.LastIndexByte(field, '.')+1:] }

// shortQuote returns a short text without markup. Descriptions are read by all agents of a tenant, and pipelines are written by models that
// read what others wrote.
func shortQuote(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune("<>`\\{}", r) {
			return -1
		}
		return r
	}, text)
	return clip.Bytes(text, maxShown)
}

// toolName returns a name for a composite by what it does: fetch_flights_by_price_top.
func toolName(d document) string {
	var parts []string
	if !d.hasOwnRows() {
		parts = append(parts, "rows")
	}
	for i := range d {
		parts = append(parts, d.nameOf(i))
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

// nameOf returns a name for what one step does, empty for a step without one.
func (d document) nameOf(i int) string {
	switch d.stepName(i) {
	case "http_request":
		return "fetch_" + subject(d.text(i, "url"))
	case "table_sort":
		name := "by_" + snake(lastSegment(first(d.fields(i, "field", "fields"))))
		if d.text(i, "order") == "desc" {
			name += "_desc"
		}
		return name
	case "table_filter":
		return "with_" + strings.Join(snakeNames(d.compared(i)), "_and_")
	case "top_k":
		return "top"
	case "groupby":
		return strings.TrimSuffix(d.nameOfGroup(i), "_per_")
	case "join":
		return "joined_on_" + snake(d.text(i, "on"))
	case "jq_transform":
		return "transformed"
	case "regex_extract":
		return "extract_" + snake(lastSegment(d.text(i, "field")))
	default:
		return ""
	}
}

func (d document) nameOfGroup(i int) string {
	fn := d.text(i, "agg")
	if field := d.text(i, "field"); field != "" {
		fn = strings.TrimPrefix(fn+"_"+snake(lastSegment(field)), "_")
	}
	if fn == "" {
		fn = "totals"
	}
	return fn + "_per_" + strings.Join(snakeNames(d.fields(i, "by")), "_and_")
}

// snakeNames names the first two of some fields.
func snakeNames(fields []string) []string {
	var names []string
	for _, f := range fields[:min(len(fields), 2)] {
		names = append(names, snake(lastSegment(f)))
	}
	return names
}

var (
	genericWord = regexp.MustCompile(`^(api|rest|v[0-9.]+|search|query|list|items|data|json|csv|index|public|download|export|www)$`)
	wordPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
)

// subject returns the topic of an address: flights for https://api.flights.com/v1/search.
func subject(address string) string {
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
			return snake(s)
		}
	}
	return "data"
}

// uniqueName returns the name, with a number behind it if it is taken, and marks it as taken.
func uniqueName(name string, taken map[string]bool) string {
	try := name
	for n := 2; taken[try]; n++ {
		try = name + "_" + strconv.Itoa(n)
	}
	taken[try] = true
	return try
}

func first(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return texts[0]
}
