package offline

import (
	"encoding/json"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// The bounds of what a place may ask for.
const (
	maxText    = 100_000 // runes of a string
	maxPattern = 1_000   // bytes of a pattern
)

// text makes a string: what is known under the name, else a placeholder that fits.
func (m *maker) text(p *place, at spot) (json.RawMessage, error) {
	least, most := p.count("minLength", 0), p.count("maxLength", maxText)
	if least > most || least > maxText {
		return nil, errNever
	}
	if at.nth == 0 {
		for _, v := range p.given(m.known.cell(at.name)) {
			if isType(v, "string") && p.fits(v) {
				return v, nil
			}
		}
		if s, ok := m.known.text(at.name, func(s string) bool { return p.fits(encoded(s, nil)) }); ok {
			return encode(s)
		}
	}
	for _, s := range p.placeholders(at, least, most) {
		if v := encoded(s, nil); p.fits(v) {
			return v, nil
		}
	}
	return nil, errNever
}

// given are the values that are known or that the schema itself names, in this order.
func (p *place) given(known json.RawMessage) []json.RawMessage {
	var out []json.RawMessage
	if len(known) > 0 {
		out = append(out, known)
	}
	if d, ok := p.keywords["default"]; ok {
		out = append(out, d)
	}
	var examples []json.RawMessage
	if json.Unmarshal(p.keywords["examples"], &examples) == nil && len(examples) > 0 {
		out = append(out, examples[0])
	}
	return out
}

// placeholders are strings that may fit: an example of the format or the pattern, else the name of the place, drawn out or cut.
func (p *place) placeholders(at spot, least, most int) []string {
	var out []string
	if format := stringOf(p.keywords["format"]); format != "" {
		out = append(out, formatExample(format, at.nth))
	}
	if pattern := stringOf(p.keywords["pattern"]); pattern != "" && len(pattern) <= maxPattern {
		out = append(out, patternExamples(pattern, least, at.nth)...)
	}
	name := at.name
	if name == "" {
		name = "text"
	}
	if at.nth > 0 {
		name = strconv.Itoa(at.nth+1) + " " + name // in front, where a bound does not cut it off
	}
	if n := utf8.RuneCountInString(name); n < least {
		name += strings.Repeat(".", least-n)
	}
	if runes := []rune(name); len(runes) > most {
		name = string(runes[:most])
	}
	return append(out, name)
}

func stringOf(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // anything else is none
	return s
}

// formatExample is a string of a format, "" for one that is not known.
func formatExample(format string, nth int) string {
	n := strconv.Itoa(nth + 1)
	day := time.Date(2026, time.January, 1+nth, 9, 0, 0, 0, time.UTC)
	switch format {
	case "date":
		return day.Format(time.DateOnly)
	case "date-time":
		return day.Format(time.RFC3339)
	case "time":
		return day.Add(time.Duration(nth) * time.Minute).Format("15:04:05Z")
	case "duration":
		return "PT" + n + "H"
	case "email", "idn-email":
		return "user" + n + "@example.com"
	case "hostname", "idn-hostname":
		return "host" + n + ".example.com"
	case "uri", "uri-reference", "iri", "iri-reference":
		return "https://example.com/" + n
	case "uuid":
		return uuid.NewSHA1(uuid.NameSpaceURL, []byte(n)).String()
	case "ipv4":
		return "192.0.2." + strconv.Itoa(1+nth%254)
	case "ipv6":
		return "2001:db8::" + strconv.FormatInt(int64(nth+1), 16)
	case "json-pointer":
		return "/" + n
	case "regex":
		return "^" + n + "$"
	default:
		return ""
	}
}

// isFormat reports whether a string is of a format; the rarer ones are known by their example alone, and what is not known is passed over.
func isFormat(s, format string) bool {
	var err error
	switch format {
	case "date":
		_, err = time.Parse(time.DateOnly, s)
	case "date-time":
		_, err = time.Parse(time.RFC3339, s)
	case "email":
		var a *mail.Address
		if a, err = mail.ParseAddress(s); err == nil {
			return a.Address == s
		}
	case "uri":
		var u *url.URL
		if u, err = url.Parse(s); err == nil {
			return u.IsAbs()
		}
	case "uuid":
		_, err = uuid.Parse(s)
		return err == nil && len(s) == 36
	case "ipv4", "ipv6":
		var a netip.Addr
		if a, err = netip.ParseAddr(s); err == nil {
			return a.Is4() == (format == "ipv4")
		}
	default:
		example := formatExample(format, 0)
		return example == "" || withoutDigits(s) == withoutDigits(example)
	}
	return err == nil
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}

// isType reports whether a value is of a type.
func isType(v json.RawMessage, typ string) bool {
	if len(v) == 0 {
		return false
	}
	switch typ {
	case "object":
		return v[0] == '{'
	case "array":
		return v[0] == '['
	case "string":
		return v[0] == '"'
	case "boolean":
		return v[0] == 't' || v[0] == 'f'
	case "null":
		return v[0] == 'n'
	case "integer":
		r, ok := rational(v)
		return ok && r.IsInt()
	default:
		_, ok := rational(v)
		return typ == "number" && ok
	}
}

// fits reports whether a string or a number is within the bounds of a place; all else is.
func (p *place) fits(v json.RawMessage) bool {
	if raw, ok := p.keywords["enum"]; ok {
		var values []json.RawMessage
		if json.Unmarshal(raw, &values) != nil || !holds(values, v) {
			return false
		}
	}
	if isType(v, "string") {
		return p.fitsText(stringOf(v))
	}
	r, ok := rational(v)
	return !ok || p.fitsNumber(r)
}

func (p *place) fitsText(s string) bool {
	n := utf8.RuneCountInString(s)
	if n < p.count("minLength", 0) || n > p.count("maxLength", maxText) {
		return false
	}
	if format := stringOf(p.keywords["format"]); format != "" && !isFormat(s, format) {
		return false
	}
	pattern := stringOf(p.keywords["pattern"])
	if pattern == "" || len(pattern) > maxPattern {
		return true
	}
	re, err := regexp.Compile(pattern)
	return err != nil || re.MatchString(s) // what cannot be read is passed over
}
