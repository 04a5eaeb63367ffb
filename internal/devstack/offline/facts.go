package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// facts is what a document may say: what the prompt and the tools' results hold.
type facts struct {
	prompt  string
	folded  string // lower case, with a space before and after each word
	answer  string // what would be said without a schema; empty: nothing of use
	words   []string
	row     map[string]json.RawMessage // one of the rows that a tool found, and how many there are
	rows    []json.RawMessage
	quotes  []string // of the prompt, in order; those in use are gone
	numbers []string
}

var (
	quotation  = regexp.MustCompile(`"([^"\n]+)"|“([^”\n]+)”`)
	figure     = regexp.MustCompile(`(?:^|[\s($€£:=])(-?\d[\d,]*(?:\.\d+)?)(?:$|[\s%),.;:?!])`)
	camelCase  = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	answerName = regexp.MustCompile(`(?i)^(?:answer|text|output|result|message|response|reply|summary|content|description|explanation|words|body)$`)
	countName  = regexp.MustCompile(`(?i)^(?:count|total|n|number|(?:row|number|total)_?(?:of_?)?(?:count|rows|results|items|words)?|found)$`)
)

// factsOf reads a request and the answer that it would get without a schema.
func factsOf(req *request, r *reply) *facts {
	f := &facts{row: map[string]json.RawMessage{}}
	if !r.aside {
		f.answer = strings.TrimSpace(r.text)
	}
	last := lastUser(req.Messages)
	if last < 0 {
		return f
	}
	f.read(clipBytes(req.Messages[last].text, maxPrompt))
	if in := parseIntent(f.prompt); in.say > 0 {
		f.words = strings.Fields(numbered(min(in.say, maxMembers)))
	}
	for _, result := range trailingResults(req.Messages) {
		var d dataset
		if json.Unmarshal([]byte(result), &d) != nil {
			continue
		}
		if d.Preview != nil {
			d.Sample, d.RowCount = d.Preview.Sample, d.Preview.RowCount
		}
		if f.rows = d.Rows; f.rows == nil {
			f.rows = d.Sample
		}
		f.rows = f.rows[:min(len(f.rows), maxMembers)]
		if len(f.rows) > 0 {
			_ = json.Unmarshal(f.rows[0], &f.row) // rows that are no objects tell nothing by name
		}
		if f.row == nil {
			f.row = map[string]json.RawMessage{}
		}
		n := len(f.rows)
		if d.RowCount != nil {
			n = *d.RowCount
		}
		if f.rows != nil {
			f.row["row_count"] = encoded(n, nil)
		}
	}
	return f
}

func (f *facts) read(prompt string) {
	f.prompt = prompt
	f.folded = " " + strings.Join(splitWords(strings.ReplaceAll(prompt, "_", " ")), " ") + " "
	for _, q := range quotation.FindAllStringSubmatch(prompt, maxMembers) {
		f.quotes = append(f.quotes, q[1]+q[2])
	}
	rest := prompt
	for len(f.numbers) < maxMembers {
		at := figure.FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		if n := plainNumber(rest[at[2]:at[3]]); n != "" {
			f.numbers = append(f.numbers, n)
		}
		rest = rest[at[3]:]
	}
}

// plainNumber is a number as JSON writes it, without thousands; "" when it is none.
func plainNumber(s string) string {
	n, text := number(strings.TrimRight(s, ",."))
	if n == 0 {
		return ""
	}
	return text
}

// of is what is known about one item of a list: a row by its names, a word by itself.
func (f *facts) of(item json.RawMessage) *facts {
	g := &facts{row: map[string]json.RawMessage{}}
	if json.Unmarshal(item, &g.row) != nil || g.row == nil {
		g.row = map[string]json.RawMessage{}
	}
	if s := stringOf(item); s != "" {
		g.quotes = []string{s}
	}
	if _, ok := rational(item); ok {
		g.numbers = []string{string(item)}
	}
	return g
}

// items are what a list of this name may hold: the rows that were found, the words to be said, the strings in quotes, the numbers.
func (f *facts) items(name string) []json.RawMessage {
	if v, ok := f.row[name]; ok {
		var own []json.RawMessage
		if json.Unmarshal(v, &own) == nil {
			return own[:min(len(own), maxMembers)]
		}
	}
	if len(f.rows) > 0 {
		return f.rows
	}
	list := f.words
	if len(list) == 0 {
		list = f.quotes
	}
	var out []json.RawMessage
	for _, s := range list {
		out = append(out, encoded(s, nil))
	}
	if len(out) == 0 && len(f.numbers) > 1 {
		for _, n := range f.numbers {
			out = append(out, json.RawMessage(n))
		}
	}
	return out
}

// cell is what the row has under a name, or, for the name of a list, under that of one of it.
func (f *facts) cell(name string) json.RawMessage {
	if v, ok := f.row[name]; ok {
		return v
	}
	return f.row[strings.TrimSuffix(name, "s")]
}

// has reports whether something is known under a name.
func (f *facts) has(name string) bool {
	if f.cell(name) != nil || f.mentions(name) {
		return true
	}
	return f.answer != "" && answerName.MatchString(name) || len(f.rows) > 0 && countName.MatchString(name)
}

// nameWords are the words of a property's name: max_price and maxPrice are two.
func nameWords(name string) []string {
	return splitWords(strings.NewReplacer("_", " ", "-", " ").Replace(camelCase.ReplaceAllString(clipBytes(name, 100), "$1 $2")))
}

// mentions reports whether the prompt has these words, one behind the other.
func (f *facts) mentions(name string) bool {
	words := nameWords(name)
	if len(words) == 0 {
		return false
	}
	phrase := " " + strings.Join(words, " ")
	return strings.Contains(f.folded, phrase+" ") || strings.Contains(f.folded, phrase+"s ")
}

// around compiles an expression in which NAME stands for a property's name, nil when that has no words.
func around(name, expression string) *regexp.Regexp {
	words := nameWords(name)
	if len(words) == 0 {
		return nil
	}
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	re, err := regexp.Compile(`(?i)` + strings.ReplaceAll(expression, "NAME", strings.Join(words, `[\s_-]*`)+"s?"))
	if err != nil {
		return nil
	}
	return re
}

// find is what the first of several expressions finds.
func (f *facts) find(name string, expressions ...string) string {
	if !f.mentions(name) {
		return ""
	}
	for _, x := range expressions {
		re := around(name, x)
		if re == nil {
			return ""
		}
		if found := re.FindStringSubmatch(f.prompt); found != nil {
			return strings.Join(found[1:], "")
		}
	}
	return ""
}

// number is the number that stands beside a name in the prompt, else the next one that fits.
func (f *facts) number(name string, fits func(json.RawMessage) bool) (json.RawMessage, bool) {
	const beside = `(?:^|[^\pL\pN])NAME(?:\s*[:=]|\s+(?:is|are|was|of|to|at most|at least|under|over|below|above))?\s*[$€£]?(-?\d[\d,]*(?:\.\d+)?)`
	if n := plainNumber(f.find(name, beside, `(-?\d[\d,]*(?:\.\d+)?)\s+NAME(?:$|[^\pL\pN])`)); n != "" && fits(json.RawMessage(n)) {
		f.drop(&f.numbers, n)
		return json.RawMessage(n), true
	}
	if n, ok := f.row["row_count"]; ok && countName.MatchString(name) && fits(n) {
		return n, true
	}
	for _, n := range f.numbers {
		if fits(json.RawMessage(n)) {
			f.drop(&f.numbers, n)
			return json.RawMessage(n), true
		}
	}
	return nil, false
}

// text is what the prompt says a name is, else the answer for a name that means one, else the next string in quotes.
func (f *facts) text(name string, fits func(string) bool) (string, bool) {
	const (
		quoted  = `(?:^|[^\pL\pN])NAME(?:\s*[:=]|\s+(?:is|are|was|named|called))?\s*(?:"([^"\n]+)"|“([^”\n]+)”)`
		written = `(?:^|[^\pL\pN])NAME(?:\s*[:=]\s*|\s+(?:is|are|was)\s+)([^\s,;"“][^,;\n]*)`
	)
	if s := f.find(name, quoted); s != "" && fits(s) {
		f.drop(&f.quotes, s)
		return s, true
	}
	if s := firstClause(f.find(name, written)); s != "" && fits(s) {
		return s, true
	}
	if f.answer != "" && answerName.MatchString(name) && fits(f.answer) {
		return f.answer, true
	}
	for _, s := range f.quotes {
		if fits(s) {
			f.drop(&f.quotes, s)
			return s, true
		}
	}
	return "", false
}

var clauseEnd = regexp.MustCompile(`(?i)\s+(?:and|but|with|while)\s|[.!?](?:\s|$)`)

// firstClause is a text up to where another clause begins.
func firstClause(s string) string {
	if at := clauseEnd.FindStringIndex(s); at != nil {
		s = s[:at[0]]
	}
	return strings.TrimRightFunc(s, unicode.IsSpace)
}

// flag is what the prompt says of a name that is true or false: it is true when it is mentioned and not denied.
func (f *facts) flag(name string) (value, known bool) {
	if v, ok := f.row[name]; ok && isType(v, "boolean") {
		return v[0] == 't', true
	}
	if !f.mentions(name) {
		return false, false
	}
	switch strings.ToLower(f.find(name, `NAME(?:\s*[:=]|\s+(?:is|are|was))?\s*(true|false|yes|no|not)(?:$|[^\pL\pN])`)) {
	case "true", "yes":
		return true, true
	case "false", "no", "not":
		return false, true
	}
	return f.find(name, `(?:^|[^\pL\pN])(not|no|non|without|never)[\s-]+NAME`) == "", true
}

// drop takes the first of a list away.
func (f *facts) drop(from *[]string, s string) {
	if i := slices.Index(*from, s); i >= 0 {
		*from = slices.Delete(*from, i, i+1)
	}
}
