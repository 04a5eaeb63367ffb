package manifest

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDigits bounds the text of a number. A double needs at most some 770 digits.
const maxDigits = 1000

// decimal returns a number as canonical JSON has it (RFC 8785): as a double. Numbers that would change are a problem: whole numbers with more
// digits than a double keeps, and numbers beyond the largest double.
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

// The numbers of YAML 1.2's core schema.
var (
	coreInteger = regexp.MustCompile(`^[-+]?[0-9]+$`)
	coreBased   = regexp.MustCompile(`^0(?:o[0-7]+|x[0-9a-fA-F]+)$`)
	coreFloat   = regexp.MustCompile(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$`)
	coreNoFloat = regexp.MustCompile(`^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
)

// plainScalar reads a scalar without quotes by the core schema of YAML 1.2: yes, no and dates are strings, and 010 is ten. problem is
// empty if it is valid.
func plainScalar(text string, at place) (n *node, problem string) {
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
