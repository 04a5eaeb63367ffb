package kube

import (
	"math/big"
	"regexp"

	"github.com/turnstone-run/turnstone/agent"
)

// quantity is an amount of a resource in Kubernetes' notation, such as 500m or 256Mi.
type quantity struct {
	text   string
	amount *big.Rat
}

var quantityPattern = regexp.MustCompile(`^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,2})|([KMGTPE]i|[numkMGTPE]?))$`)

// unitOf returns what a number before a suffix is multiplied by.
func unitOf(suffix string) *big.Rat {
	text := map[string]string{
		"": "1", "n": "1e-9", "u": "1e-6", "m": "1e-3", "k": "1e3", "M": "1e6", "G": "1e9", "T": "1e12", "P": "1e15", "E": "1e18",
		"Ki": "0x1p10", "Mi": "0x1p20", "Gi": "0x1p30", "Ti": "0x1p40", "Pi": "0x1p50", "Ei": "0x1p60",
	}[suffix]
	unit, _ := new(big.Rat).SetString(text)
	return unit
}

// parseQuantity parses an amount that is more than 0.
func parseQuantity(field, text string) (quantity, error) {
	parts := quantityPattern.FindStringSubmatch(text)
	if len(text) > 32 || parts == nil {
		return quantity{}, agent.Invalid(field, "%.32q is no quantity such as 500m or 256Mi", text)
	}
	amount, _ := new(big.Rat).SetString(parts[1] + parts[2])
	if amount.Mul(amount, unitOf(parts[3])).Sign() <= 0 {
		return quantity{}, agent.Invalid(field, "%s: want more than 0", text)
	}
	return quantity{text, amount}, nil
}

// requestedQuantity returns the quantity that a call asks for, or the maximum if it asks for none.
func requestedQuantity(field, text string, maximum quantity) (quantity, error) {
	if text == "" {
		return maximum, nil
	}
	q, err := parseQuantity(field, text)
	if err == nil && q.amount.Cmp(maximum.amount) > 0 {
		err = agent.FieldErrorf(agent.CodeDenied, field, "%s: at most %s", text, maximum.text)
	}
	return q, err
}
