package pgstream

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHubWakesOnlyWhoHasSomethingToRead(t *testing.T) {
	h := newHub()
	a, b, other := h.subscribe("s", nil), h.subscribe("s", nil), h.subscribe("other", nil)
	woken := func(s *subscription) bool {
		select {
		case <-s.wake:
			return true
		default:
			return false
		}
	}
	require.False(t, a.due(0))
	h.advance("s", 3)
	h.advance("s", 4)
	h.advance("unknown", 9)
	require.True(t, woken(a) && woken(b))
	require.False(t, woken(a), "one signal for many advances")
	require.False(t, woken(other))
	require.True(t, a.due(3))
	require.False(t, a.due(4))
	h.advance("s", 4)
	h.advance("s", 2)
	require.False(t, woken(a), "nothing new")

	h.resync()
	require.True(t, woken(a) && woken(other))
	require.True(t, a.due(4), "whatever the index says")
	require.False(t, a.due(4), "once")
	require.True(t, b.due(4), "each its own")

	a.cancel()
	b.cancel()
	require.Equal(t, []string{"other"}, h.streams())
	other.cancel()
	require.Empty(t, h.streams())
}

func TestAnnouncerSaysEachStreamOnce(t *testing.T) {
	a := newAnnouncer()
	a.add("s:1", 2)
	a.add("s:1", 5)
	a.add("s:1", 4)
	a.watch("s:2", "s:2")
	pending, watched := a.take()
	again, none := a.take()
	require.Empty(t, again)
	require.Empty(t, none)
	a.add("s:1", 7)
	a.putBack(pending, watched)
	channels, payloads := notifications("process", pending, watched)
	require.Equal(t, []string{eventsChannel, streamsChannel}, channels)
	require.Equal(t, []string{"s:1:5", "watch process s:2"}, payloads)
	pending, watched = a.take()
	require.Equal(t, map[string]int64{"s:1": 7}, pending)
	require.Equal(t, []string{"s:2"}, watched)
}

func FuzzParseNotification(f *testing.F) {
	for _, seed := range []string{"", ":", "s:1", "a:b:12", "s:-1", "s:99999999999999999999", "s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		stream, index, ok := parseNotification(payload)
		if !ok {
			return
		}
		require.NotEmpty(t, stream)
		require.Positive(t, index)
		again, _, ok := parseNotification(stream + ":" + strconv.FormatInt(index, 10))
		require.True(t, ok)
		require.Equal(t, stream, again)
	})
}
