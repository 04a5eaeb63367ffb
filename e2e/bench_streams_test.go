//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/turnstonetest"
)

// BenchmarkStreams is many answers that are streamed at the same time, at the pace of a model: what a token costs in processor time, and its delay from
// the model to the client. The clients begin as fast as the process lets them: one that is refused comes again after Retry-After. An operation is one
// token that arrives once all streams have begun, so -benchtime is how long that is measured.
func BenchmarkStreams(b *testing.B) {
	binary := build(b, "../worker")
	for _, load := range []struct{ streams, rate int }{{240, 20}, {1000, 10}} {
		relayed := baseline{}
		for _, name := range targets {
			b.Run(fmt.Sprintf("%dx%d/%s", load.streams, load.rate, name), func(b *testing.B) {
				s := &streams{stop: make(chan struct{}), delays: make(chan time.Duration, 1<<16), begun: make(chan error, load.streams)}
				t := openTarget(b, name, binary, turnstonetest.NewModel(b, paced(load.rate, s.stop)))
				s.run(b, t, load.streams, relayed)
			})
		}
	}
}

// streams are the clients of one target.
type streams struct {
	stop      chan struct{}      // closed when the model is to end its answers
	delays    chan time.Duration // of each token, while recording
	begun     chan error         // of each stream: nil at its first token, or what went wrong before
	recording atomic.Bool
	refused   atomic.Int64
	repeated  atomic.Int64 // model calls that were made again
	failed    atomic.Int64
}

// clock is the start of the time that the model writes and the clients read. Both are in this process.
var clock = time.Now()

// firstToken begins each answer, so that a client sees when a model call was made again.
const firstToken = "^ "

// paced streams tokens, so many a second, until stop is closed. The text of each is when it was sent, that of the last how many there were.
func paced(rate int, stop <-chan struct{}) turnstonetest.Reply {
	const token = "@"
	all := turnstonetest.Frames(token)
	head, one, ending := all[:2], all[2], all[3:]
	return func(x *turnstonetest.Exchange) {
		x.Send(head...)
		x.Send(strings.Replace(one, token, firstToken, 1))
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for sent := 0; ; sent++ {
			select {
			case <-tick.C:
				x.Send(strings.Replace(one, token, strconv.FormatInt(time.Since(clock).Microseconds(), 10)+" ", 1))
			case <-stop:
				x.Send(strings.Replace(one, token, "="+strconv.Itoa(sent)+" ", 1))
				x.Send(ending...)
				return
			case <-x.Request.Context().Done():
				return
			}
		}
	}
}

// run opens the streams, measures while all of them last, and sees each to its end.
func (s *streams) run(b *testing.B, t *target, n int, relayed baseline) {
	b.Helper()
	var clients sync.WaitGroup
	opened := time.Now()
	for range n {
		clients.Go(func() {
			if err := s.watch(b.Context(), t); err != nil && s.failed.Add(1) <= 5 {
				b.Log(err)
			}
		})
	}
	failedEarly := 0
	for range n {
		if err := <-s.begun; err != nil {
			failedEarly++
		}
	}
	require.Less(b, failedEarly, n, "no stream has begun")
	ramp, before := time.Since(opened), t.read(b)
	s.recording.Store(true)
	var delays []time.Duration
	for b.Loop() {
		delays = append(delays, <-s.delays)
	}
	s.recording.Store(false)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
	relayed.compare(b, t, n, t.report(b, before, float64(b.N)/1e3, "1000tokens"))
	close(s.stop)
	clients.Wait()
	b.ReportMetric(ramp.Seconds(), "ramp-s")
	b.ReportMetric(quantile(delays, 0.5), "delay-p50-ms")
	b.ReportMetric(quantile(delays, 0.99), "delay-p99-ms")
	if t.site != nil { // the relay is the test binary, whose size says nothing
		b.ReportMetric(t.peakMemory(b), "peak-MB")
	}
	b.ReportMetric(float64(s.refused.Load()), "refused")
	b.ReportMetric(float64(s.repeated.Load()), "repeated")
	b.ReportMetric(float64(s.failed.Load()), "errors")
	b.ReportMetric(0, "ns/op")
}

// watch reads one stream and says whether each token came once.
func (s *streams) watch(ctx context.Context, t *target) error {
	var once sync.Once
	var rest string
	var answers, came, sent int
	refused, err := t.askUntilAccepted(ctx, "hello", func(text string) {
		once.Do(func() { s.begun <- nil })
		words := strings.SplitAfter(rest+text, " ")
		rest = words[len(words)-1] // empty, or the beginning of a token
		for _, word := range words[:len(words)-1] {
			if word == firstToken {
				answers, came = answers+1, 0
				continue
			}
			if number, isLast := strings.CutPrefix(word, "="); isLast {
				sent, _ = strconv.Atoi(strings.TrimSpace(number))
				continue
			}
			came++
			at, _ := strconv.ParseInt(strings.TrimSpace(word), 10, 64) // a token that is none has an absurd delay
			if s.recording.Load() {
				s.delays <- time.Since(clock) - time.Duration(at)*time.Microsecond
			}
		}
	})
	s.refused.Add(int64(refused))
	s.repeated.Add(int64(max(answers-1, 0)))
	if err == nil && came != sent {
		err = fmt.Errorf("%d of %d tokens came", came, sent)
	}
	once.Do(func() { s.begun <- err })
	return err
}
