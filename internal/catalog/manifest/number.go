package manifest

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDigits bounds a number's text; the longest that a double needs has some 770 digits.
const maxDigits = 1000

// decimal turns the text of a number into the form that canonical JSON has (RFC 8785): a double. What would come out as another number
// is refused, so that nothing is lost on the way: whole numbers beyond 2^53 with digits that a double does not keep, and numbers
// beyond the largest double. problem is empty when it went well.
func decimal(text string) (canonical string, whole bool, problem string) {
	whole = !strings.ContainsAny(text, ".eE")
	if len(text) > maxDigits {
		return "", false, "has too many digits"
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "", false, "is beyond the largest number"
	}
	canonical = jsontext.Float(f).String()
	if canonical == "-0" {
		canonical = "0"
	}
	if whole {
		sign, digits := "", strings.TrimPrefix(text, "+")
		if rest, ok := strings.CutPrefix(digits, "-"); ok {
			sign, digits = "-", rest
		}
		digits = strings.TrimLeft(digits, "0")
		if exact := sign + digits; digits != "" && exact != canonical {
			return "", false, "has more digits than JSON keeps: put it in quotes"
		}
	}
	return canonical, whole, ""
}

// The plain scalars of YAML 1.2's core schema.
var (
	coreInteger = regexp.MustCompile(`^[-+]?[0-9]+$`)
	coreBased   = regexp.MustCompile(`^0(?:o[0-7]+|x[0-9a-fA-F]+)$`)
	coreFloat   = regexp.MustCompile(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$`)
	coreNoFloat = regexp.MustCompile(`^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
)

// plain reads a scalar that stands without quotes, by the core schema of YAML 1.2: yes and no are strings, 010 is ten, and a date is a
// string. problem is empty when it went well.
func plain(text string, at place) (n *node, problem string) {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return &node{form: formNull, at: at}, ""
	case "true", "True", "TRUE":
		return &node{form: formBool, truth: true, at: at}, ""
	case "false", "False", "FALSE":
		return &node{form: formBool, at: at}, ""
	}
	n = &node{form: formNumber, at: at}
	switch {
	case len(text) > maxDigits:
		return textNode(text, at), ""
	case coreInteger.MatchString(text), coreFloat.MatchString(text):
		n.text, n.whole, problem = decimal(text)
	case coreBased.MatchString(text):
		i, err := strconv.ParseUint(text, 0, 53)
		if err != nil {
			return n, "has more digits than JSON keeps: put it in quotes"
		}
		n.text, n.whole = strconv.FormatUint(i, 10), true
	case coreNoFloat.MatchString(text):
		return n, "is no number that JSON has"
	default:
		return textNode(text, at), ""
	}
	return n, problem
}
