package app

import (
	"math"
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/turnstone-run/turnstone/internal/secret"
)

// redacted stands for a secret in everything that a person or a log can read.
const redacted = secret.Redacted

// Secret is a text that only its method Reveal shows: printed, logged or encoded it is "[redacted]", or empty when it is empty.
type Secret = secret.Value

// Size is a count of bytes, written as a plain number or with a unit: 1048576, "64KiB", "10MiB".
type Size int64

// String uses the largest binary unit that divides the size.
func (s Size) String() string {
	for _, u := range []struct {
		bytes Size
		name  string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

func parseSize(text string) (Size, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Size(n), nil
	}
	n, err := humanize.ParseBytes(text)
	if err == nil && n > math.MaxInt64 {
		err = strconv.ErrRange
	}
	return Size(n), err //nolint:gosec // checked above; nobody uses it beside an error
}
