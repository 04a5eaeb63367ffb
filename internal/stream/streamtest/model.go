package streamtest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/turnstone-run/turnstone/agent"
)

// oracle is the log in a few lines, for one stream.
type oracle struct {
	events            []string // text, or reset:<producer>:<from>
	closed, cancelled bool
	producers         map[string]*oracleProducer
}

type oracleProducer struct {
	epoch   agent.Epoch
	wrote   int64           // first index
	batches map[int64]int64 // batch → last index
	text    []string        // what a reader must see of it
}

// model runs random interleavings of producers against the oracle.
func model(t *testing.T, log Log) {
	var streams atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		ctx, id := context.Background(), fmt.Sprint("model-", streams.Add(1))
		o := &oracle{producers: map[string]*oracleProducer{}}
		var fences []agent.Fence // all ever given
		serial := 0
		check := func(t *rapid.T, a agent.Appended) {
			require.Equal(t, agent.Appended{LastIndex: int64(len(o.events)), Cancelled: o.cancelled}, a)
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "producer")
				f, a, err := log.Begin(ctx, id, name)
				if o.closed {
					require.ErrorIs(t, err, agent.ErrStreamClosed)
					return
				}
				require.NoError(t, err)
				p, ok := o.producers[name]
				if !ok {
					p = &oracleProducer{}
					o.producers[name] = p
				}
				*p = oracleProducer{epoch: p.epoch + 1, wrote: p.wrote, text: p.text, batches: map[int64]int64{}}
				check(t, a)
				require.Equal(t, agent.Fence{StreamID: id, Producer: name, Epoch: p.epoch}, f)
				fences = append(fences, f)
				if rapid.IntRange(0, 3).Draw(t, "stands") == 0 {
					return // what was written before is not voided
				}
				if p.wrote > 0 {
					o.events = append(o.events, fmt.Sprintf("reset:%s:%d", name, p.wrote))
				}
				p.wrote, p.text = 0, nil
				a, err = log.Reset(ctx, f)
				require.NoError(t, err)
				check(t, a)
			},
			"append": func(t *rapid.T) { // also repeated batches, and those of fenced epochs
				if len(fences) == 0 {
					return // nobody has begun
				}
				// Mostly one of the youngest.
				i := len(fences) - 1 - rapid.IntRange(0, min(len(fences)-1, 4)).Draw(t, "fence")
				f, p := fences[i], o.producers[fences[i].Producer]
				batch := rapid.Int64Range(1, 4).Draw(t, "batch")
				n := rapid.IntRange(0, 3).Draw(t, "events")
				var text []string
				for range n {
					serial++
					text = append(text, fmt.Sprint(f.Producer, serial))
				}
				a, err := log.Append(ctx, f, batch, tokens(text...))
				switch last, repeated := p.batches[batch]; {
				case f.Epoch != p.epoch:
					require.ErrorIs(t, err, agent.ErrFenced)
					return
				case o.closed:
					require.ErrorIs(t, err, agent.ErrStreamClosed)
					return
				case n == 0:
				case repeated:
					require.NoError(t, err)
					require.Equal(t, agent.Appended{LastIndex: last, Cancelled: o.cancelled}, a)
					return
				default:
					if p.wrote == 0 {
						p.wrote = int64(len(o.events)) + 1
					}
					o.events = append(o.events, text...)
					p.text = append(p.text, text...)
					p.batches[batch] = int64(len(o.events))
				}
				require.NoError(t, err)
				check(t, a)
			},
			"cancel": func(t *rapid.T) {
				if !rapid.SampledFrom([]bool{false, false, true}).Draw(t, "really") {
					return // seldom
				}
				require.NoError(t, log.Cancel(ctx, id))
				o.cancelled = o.cancelled || !o.closed
			},
			"close": func(t *rapid.T) {
				if rapid.IntRange(0, 7).Draw(t, "really") > 0 {
					return // seldom
				}
				require.NoError(t, log.Close(ctx, id, terminal(agent.StatusCompleted)))
				if !o.closed {
					o.closed = true
					o.events = append(o.events, string(agent.StatusCompleted))
				}
			},
			"follow": func(t *rapid.T) {
				after := rapid.IntRange(0, len(o.events)).Draw(t, "after")
				n := len(o.events) - after
				if o.closed {
					n = -1
				}
				got := named(readN(t, log, id, int64(after), n))
				require.True(t, slices.Equal(o.events[after:], got), "want %q, got %q", o.events[after:], got)
			},
			"": func(t *rapid.T) {
				tail, err := log.Tail(ctx, id)
				require.NoError(t, err)
				require.Equal(t, agent.StreamTail{
					FirstIndex: min(int64(len(o.events)), 1), LastIndex: int64(len(o.events)), Closed: o.closed, Cancelled: o.cancelled,
				}, tail)
			},
		})
		if !o.closed {
			require.NoError(t, log.Close(ctx, id, terminal(agent.StatusCompleted)))
		}
		got := visible(readAll(t, log, id, 0))
		for name, p := range o.producers {
			require.Equal(t, p.text, got[name], "a reader that obeys resets sees the last epoch of %s, once", name)
		}
	})
}

func named(events []agent.Event) []string {
	got := texts(events)
	for i := range events {
		if events[i].Type == agent.EventReset {
			got[i] = fmt.Sprintf("reset:%s:%d", events[i].Producer, events[i].FromIndex)
		}
	}
	return got
}
