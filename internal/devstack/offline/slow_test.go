package offline

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// No prompt takes long to read, whatever it repeats. The bound is far above what it takes, and far below what looking ahead at lists that
// look ahead took: hours.
func TestNoPromptTakesLong(t *testing.T) {
	t.Parallel()
	repeated := []string{
		"average", "average price and", "where not (", "where (a = 1 or", "top 3 airlines by", "average price by airline and", "extract (", "parse departure and", "is one of A,",
		"show price,", "lowest price and lowest", "price is A or", "group by price, average", "price and average price,", "sum, min, max,", "post a=1,",
	}
	for _, words := range repeated {
		for _, prefix := range []string{"", "average price by airline, ", "only "} {
			began := time.Now()
			parseIntent(prefix + strings.Repeat(words+" ", maxPrompt/16/len(words)))
			require.Less(t, time.Since(began), 20*time.Second, "%s%s", prefix, words)
		}
	}
}

// Every comparison in words is found.
func TestOperators(t *testing.T) {
	t.Parallel()
	for _, o := range operators() {
		p := &parser{prompt: o.words, tokens: lex(o.words)}
		got, ok := p.operator()
		require.True(t, ok, o.words)
		require.Equal(t, o, got)
		require.Equal(t, len(p.tokens), p.at, o.words)
	}
}
