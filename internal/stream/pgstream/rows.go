package pgstream

import (
	"math"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/internal/stream"
)

// Bounds of one row of several tokens.
const (
	maxRowTokens = 1000
	maxRowBytes  = 64 << 10
)

// row is one row of the table events.
type row struct {
	index    int64 // of the last event in it
	producer string
	epoch    int64
	tokens   *string // as PostgreSQL writes an array
	body     []byte
}

// mergeRows makes rows of the events behind an index: neighbouring tokens of one producer share one.
func mergeRows(events []tailEvent, after int64) []row {
	var rows []row
	for i := 0; i < len(events); {
		if events[i].index <= after {
			i++
			continue
		}
		j, size := i+1, len(events[i].text)
		for j < len(events) && j-i < maxRowTokens && size+len(events[j].text) <= maxRowBytes && events[i].shared == events[j].shared {
			size += len(events[j].text)
			j++
		}
		rows = append(rows, newRow(events[i:j]))
		i = j
	}
	return rows
}

func newRow(events []tailEvent) row {
	e := events[0].event()
	r := row{index: events[len(events)-1].index, producer: e.Meta.Producer, epoch: e.Meta.Attempt}
	if len(events) > 1 {
		var text strings.Builder
		list := []byte{'{'}
		for i := range events {
			if i > 0 {
				list = append(list, ',')
			}
			list = strconv.AppendInt(list, int64(len(events[i].text)), 10)
			list = append(list, ',')
			list = strconv.AppendInt(list, min(events[i].time.Sub(e.Meta.Time).Microseconds(), math.MaxInt32), 10)
			text.WriteString(events[i].text)
		}
		tokens := string(append(list, '}'))
		e.Text, r.tokens = text.String(), &tokens
	}
	body, err := stream.Encode(&e)
	if err != nil { // cannot happen: it was checked before
		body = []byte("null")
	}
	r.body = body
	return r
}
