package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
	relayv1 "github.com/turnstone-run/turnstone/proto/turnstone/relay/v1"
)

const (
	// connectPatience bounds the making of a connection.
	connectPatience = 3 * time.Second
	// silence is the longest pause of a server, which sends a message every second.
	silence = 3 * time.Second
	// maxAsk bounds the subscriptions in one message.
	maxAsk = 1000
)

// Piece is what a client receives of one subscription.
type Piece struct {
	Number uint64
	Events []agent.Event // in order, behind those of the pieces before
	Sizes  []int         // of the events, as JSON
	Closed bool          // the last event ends the stream; the subscription is over
	Gone   bool          // the events have to be read elsewhere; the subscription is over
}

// Client is a connection to a process whose streams are followed.
type Client struct {
	conn   *grpc.ClientConn
	call   relayv1.RelayService_FollowClient
	cancel context.CancelFunc
	wake   chan struct{}

	mu     sync.Mutex
	over   bool
	begins []*relayv1.Subscription // to be sent
	ends   []uint64
}

// Dial connects a process to another. [Client.Run] has to be called next.
func Dial(ctx context.Context, process string, to Peer) (*Client, error) {
	trust, err := clientTLS(to)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+to.Address, grpc.WithTransportCredentials(credentials.NewTLS(trust)),
		grpc.WithPerRPCCredentials(identity{process: process, token: to.Token}), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}))
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, wake: make(chan struct{}, 1)}
	ctx, c.cancel = context.WithCancel(ctx)
	if err := c.open(ctx); err != nil {
		c.cancel()
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// open waits until the server has accepted the client.
func (c *Client) open(ctx context.Context) error {
	defer time.AfterFunc(connectPatience, c.cancel).Stop()
	var err error
	if c.call, err = relayv1.NewRelayServiceClient(c.conn).Follow(ctx); err != nil {
		return err
	}
	header, err := c.call.Header()
	if err == nil && header == nil { // it was refused
		_, err = c.call.Recv()
	}
	return err
}

// Run calls receive with each piece, one after the other, until the connection breaks or is closed. It always returns an error.
func (c *Client) Run(receive func(Piece)) error {
	var sender sync.WaitGroup
	sender.Go(c.send)
	err := c.receive(receive)
	c.mu.Lock()
	c.over, c.begins, c.ends = true, nil, nil
	c.mu.Unlock()
	c.cancel()
	sender.Wait()
	return errors.Join(err, c.conn.Close())
}

// Close ends [Client.Run].
func (c *Client) Close() { c.cancel() }

func (c *Client) receive(receive func(Piece)) error {
	watchdog := time.AfterFunc(silence, c.cancel)
	defer watchdog.Stop()
	for {
		frame, err := c.call.Recv()
		if err != nil {
			return err
		}
		watchdog.Reset(silence)
		for _, p := range frame.GetPieces() {
			piece, err := decode(p)
			if err != nil {
				return err
			}
			receive(piece)
		}
	}
}

func decode(p *relayv1.Piece) (Piece, error) {
	n := len(p.GetEvents())
	piece := Piece{Number: p.GetNumber(), Events: make([]agent.Event, n), Sizes: make([]int, n), Closed: p.GetClosed(), Gone: p.GetGone()}
	for i, body := range p.GetEvents() {
		var err error
		piece.Sizes[i] = len(body)
		if piece.Events[i], err = stream.Decode(body); err != nil {
			return Piece{}, err
		}
	}
	return piece, nil
}

// Follow asks for what follows an index of a stream, as pieces of a number that was not used before. It reports false if the connection is over.
func (c *Client) Follow(number uint64, id string, after int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.begins = append(c.begins, &relayv1.Subscription{Number: number, StreamId: id, AfterIndex: after})
	signal(c.wake)
	return true
}

// Unfollow ends what [Client.Follow] began. Some pieces may still come.
func (c *Client) Unfollow(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.ends = append(c.ends, number)
		signal(c.wake)
	}
}

// send sends what was asked for.
func (c *Client) send() {
	for {
		select {
		case <-c.wake:
		case <-c.call.Context().Done():
			return
		}
		for request := c.next(); request != nil; request = c.next() {
			if err := c.call.Send(request); err != nil { // Recv says why
				return
			}
		}
	}
}

// next returns the next message, nil if there is nothing to ask for.
func (c *Client) next() *relayv1.FollowRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	request := &relayv1.FollowRequest{}
	// In this order: what is both begun and ended here would begin after its end.
	if n := min(len(c.begins), maxAsk); n > 0 {
		request.Follow, c.begins = c.begins[:n:n], c.begins[n:]
		return request
	}
	if n := min(len(c.ends), maxAsk); n > 0 {
		request.Unfollow, c.ends = c.ends[:n:n], c.ends[n:]
		return request
	}
	return nil
}
