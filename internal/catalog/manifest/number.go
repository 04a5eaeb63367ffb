package manifest

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDigits bounds the text of a number. A double needs at most about 770 digits.
const maxDigits = 1000

// decimal returns a number in canonical JSON (RFC 8785), which writes every number as a double. problem is not empty if a double cannot hold
// the number: an integer has too many digits, or the number is too large.
func decimal(text string) (canonical string, isInteger bool, problem string) {
	isInteger = !strings.ContainsAny(text, ".eE")
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
	if isInteger {
		sign, digits := "", strings.TrimPrefix(text, "+")
		if unsigned, isNegative := strings.CutPrefix(digits, "-"); isNegative {
			sign, digits = "-", unsigned
		}
		digits = strings.TrimLeft(digits, "0")
		if exact := sign + digits; digits != "" && exact != canonical {
			return "", false, "has more digits than JSON keeps: put it in quotes"
		}
	}
	return canonical, isInteger, ""
}

// The numbers of YAML 1.2's core schema.
var (
	coreInteger = regexp.MustCompile(`^[-+]?[0-9]+$`)
	coreBased   = regexp.MustCompile(`^0(?:o[0-7]+|x[0-9a-fA-F]+)$`)
	coreFloat   = regexp.MustCompile(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$`)
	coreNoFloat = regexp.MustCompile(`^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
)

// plainScalar converts an unquoted scalar by the core schema of YAML 1.2: yes, no and dates are strings, and 010 is ten. problem is empty if
// the scalar is valid.
func plainScalar(text string, pos position) (n *node, problem string) {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return &node{form: formNull, pos: pos}, ""
	case "true", "True", "TRUE":
		return &node{form: formBool, boolValue: true, pos: pos}, ""
	case "false", "False", "FALSE":
		return &node{form: formBool, pos: pos}, ""
	}
	n = &node{form: formNumber, pos: pos}
	switch {
	case len(text) > maxDigits:
		return textNode(text, pos), ""
	case coreInteger.MatchString(text), coreFloat.MatchString(text):
		n.text, n.isInteger, problem = decimal(text)
	case coreBased.MatchString(text):
		i, err := strconv.ParseUint(text, 0, 53)
		if err != nil {
			return n, "has more digits than JSON keeps: put it in quotes"
		}
		n.text, n.isInteger = strconv.FormatUint(i, 10), true
	case coreNoFloat.MatchString(text):
		return n, "is no number that JSON has"
	default:
		return textNode(text, pos), ""
	}
	return n, problem
}
