package relay_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream/relay"
)

const patience = 20 * time.Second

// source is a process with streams in memory.
type source struct {
	mu      sync.Mutex
	streams map[string]*owned
	read    int // pages
}

type owned struct {
	source *source
	moved  func()
	events []agent.Event
	floor  int64
	closed bool
	left   bool // nobody follows it any more
}

func (s *source) Open(_, id string, moved func()) relay.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.streams[id]
	if o == nil {
		return nil
	}
	o.moved = moved
	return o
}

func (o *owned) Close() {
	o.source.mu.Lock()
	defer o.source.mu.Unlock()
	o.left = true
}

func (o *owned) Read(after int64) (relay.Page, bool) {
	o.source.mu.Lock()
	defer o.source.mu.Unlock()
	o.source.read++
	if after < o.floor {
		return relay.Page{}, false
	}
	from := min(int(after), len(o.events))
	return relay.Page{Events: o.events[from:min(len(o.events), from+100)], Last: int64(len(o.events)), Closed: o.closed}, true
}

func (s *source) add(id string, n int, text string) {
	s.mu.Lock()
	o := s.streams[id]
	for range n {
		o.events = append(o.events, agent.Event{Type: agent.EventToken, Text: text, Meta: agent.EventMeta{StreamID: id, EventIndex: int64(len(o.events)) + 1}})
	}
	moved := o.moved
	s.mu.Unlock()
	if moved != nil {
		moved()
	}
}

func serve(t *testing.T, ids ...string) (*source, relay.Peer) {
	t.Helper()
	s := &source{streams: map[string]*owned{}}
	for _, id := range ids {
		s.streams[id] = &owned{source: s}
	}
	server, err := relay.Serve(t.Context(), "127.0.0.1:0", s, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	return s, server.Peer("owner", fmt.Sprint("127.0.0.1:", server.Port()))
}

// dial returns a client and the pieces that it receives.
func dial(t *testing.T, to relay.Peer) (*relay.Client, <-chan relay.Piece) {
	t.Helper()
	client, err := relay.Dial(t.Context(), "viewer", to)
	require.NoError(t, err)
	pieces, over := make(chan relay.Piece, 10_000), make(chan struct{})
	go func() {
		defer close(over)
		_ = client.Run(func(p relay.Piece) { pieces <- p })
	}()
	t.Cleanup(func() {
		client.Close()
		<-over
	})
	return client, pieces
}

func next(t *testing.T, pieces <-chan relay.Piece) relay.Piece {
	t.Helper()
	select {
	case p := <-pieces:
		return p
	case <-time.After(patience):
		require.Fail(t, "nothing comes")
		return relay.Piece{}
	}
}

// Only who has read the row of a process may follow its streams, and only that process is trusted with a token.
func TestStrangersAreRefused(t *testing.T) {
	_, right := serve(t, "s")
	_, other := serve(t, "s")
	wrongToken, wrongCertificate, noCertificate := right, right, right
	wrongToken.Token = other.Token
	wrongCertificate.Certificate = other.Certificate
	noCertificate.Certificate = nil
	_, err := relay.Dial(t.Context(), "viewer", wrongToken)
	require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
	_, err = relay.Dial(t.Context(), "viewer", wrongCertificate)
	require.ErrorContains(t, err, "certificate")
	_, err = relay.Dial(t.Context(), "viewer", noCertificate)
	require.Error(t, err)
	dial(t, right)
}

func TestUnreachableProcess(t *testing.T) {
	_, peer := serve(t)
	peer.Address = "127.0.0.1:1"
	before := goleak.IgnoreCurrent()
	_, err := relay.Dial(t.Context(), "viewer", peer)
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.NoError(t, goleak.Find(before))
}

// All events come once and in order, however they are batched, and those of streams that are not there are gone.
func TestPieces(t *testing.T) {
	s, peer := serve(t, "a", "b")
	client, pieces := dial(t, peer)
	s.add("a", 350, "before")
	require.True(t, client.Follow(1, "a", 20))
	require.True(t, client.Follow(2, "none", 0))
	require.True(t, client.Follow(3, "b", 0))
	go func() {
		for range 100 {
			s.add("a", 2, "a")
			s.add("b", 1, "b")
		}
		s.mu.Lock()
		s.streams["b"].closed = true
		s.mu.Unlock()
		s.add("b", 1, "end")
	}()
	last, over := map[uint64]int64{1: 20}, map[uint64]string{}
	for last[1] < 550 || len(over) < 2 {
		p := next(t, pieces)
		require.Empty(t, over[p.Number], "nothing comes of %d when it is over", p.Number)
		for i := range p.Events {
			last[p.Number]++
			require.Equal(t, last[p.Number], p.Events[i].Meta.EventIndex)
		}
		switch {
		case p.Closed:
			over[p.Number] = "closed"
		case p.Gone:
			over[p.Number] = "gone"
		}
	}
	require.Equal(t, map[uint64]string{2: "gone", 3: "closed"}, over)
	require.Equal(t, int64(101), last[3])
	client.Unfollow(1)
	require.True(t, client.Follow(4, "a", 550), "a stream can be followed again")
	s.add("a", 1, "a")
	for p := next(t, pieces); p.Number != 4; p = next(t, pieces) {
		require.Equal(t, uint64(1), p.Number)
	}
}

// What the owner does not keep any more is gone.
func TestBehindTheOwner(t *testing.T) {
	s, peer := serve(t, "s")
	s.add("s", 10, "a")
	s.streams["s"].floor = 5
	client, pieces := dial(t, peer)
	require.True(t, client.Follow(1, "s", 4))
	require.Equal(t, relay.Piece{Number: 1, Gone: true, Events: []agent.Event{}, Sizes: []int{}}, next(t, pieces))
	require.True(t, client.Follow(2, "s", 5))
	require.Len(t, next(t, pieces).Events, 5)
}

// A process that does not take its events is hung up on. Meanwhile the owner holds one frame for it.
func TestSlowFollowerIsHungUpOn(t *testing.T) {
	s, peer := serve(t, "s")
	client, err := relay.Dial(t.Context(), "viewer", peer)
	require.NoError(t, err)
	stuck, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- client.Run(func(relay.Piece) { <-stuck })
	}()
	require.True(t, client.Follow(1, "s", 0))
	large := string(make([]byte, 100<<10))
	require.Eventually(t, func() bool {
		s.add("s", 1, large)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.streams["s"].left
	}, patience, 5*time.Millisecond)
	s.mu.Lock()
	require.Less(t, s.read, 100, "it does not go on reading")
	s.mu.Unlock()
	close(stuck)
	require.ErrorContains(t, <-ended, "the follower is too slow")
	require.False(t, client.Follow(2, "s", 0))
}

// Neither side leaves anything behind.
func TestEndsLeaveNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := &source{streams: map[string]*owned{"s": nil}}
	s.streams["s"] = &owned{source: s}
	server, err := relay.Serve(t.Context(), "127.0.0.1:0", s, zap.NewNop())
	require.NoError(t, err)
	client, err := relay.Dial(t.Context(), "viewer", server.Peer("owner", fmt.Sprint("127.0.0.1:", server.Port())))
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- client.Run(func(relay.Piece) {}) }()
	require.True(t, client.Follow(1, "s", 0))
	s.add("s", 1, "a")
	server.Stop()
	require.Error(t, <-ended)
	require.NoError(t, goleak.Find(before))
}

// A process that is frozen, or that the network has cut off without a word, says nothing any more: the follower gives it up.
func TestSilentProcessIsGivenUp(t *testing.T) {
	s, peer := serve(t, "s")
	network := cuttable(t, peer.Address)
	peer.Address = network.Addr().String()
	client, err := relay.Dial(t.Context(), "viewer", peer)
	require.NoError(t, err)
	pieces, ended := make(chan relay.Piece, 1), make(chan error, 1)
	go func() {
		ended <- client.Run(func(p relay.Piece) { pieces <- p })
	}()
	require.True(t, client.Follow(1, "s", 0))
	s.add("s", 1, "a")
	require.Len(t, next(t, pieces).Events, 1)
	select {
	case err := <-ended:
		require.NoError(t, err, "a stream that is silent for longer than that is followed on")
	case <-time.After(4 * time.Second):
	}
	network.cut()
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(12 * time.Second): // keepalive would notice after 15
		require.Fail(t, "the follower waits for a silent process")
	}
}

// network passes connections on to an address until it is cut. Then it holds them open and passes nothing.
type network struct {
	net.Listener

	passing sync.RWMutex
}

func cuttable(t *testing.T, address string) *network {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &network{Listener: listener}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
			if err != nil {
				_ = in.Close()
				continue
			}
			t.Cleanup(func() { _, _ = in.Close(), out.Close() })
			go n.pass(in, out)
			go n.pass(out, in)
		}
	}()
	return n
}

func (n *network) pass(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		size, err := from.Read(buffer)
		n.passing.RLock()
		_, failed := to.Write(buffer[:size])
		n.passing.RUnlock()
		if err != nil || failed != nil {
			return
		}
	}
}

func (n *network) cut() { n.passing.Lock() }
