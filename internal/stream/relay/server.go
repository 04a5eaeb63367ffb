package relay

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"net"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/turnstone-run/turnstone/agent"
	relayv1 "github.com/turnstone-run/turnstone/proto/turnstone/relay/v1"
)

const (
	// maxConnections bounds those of one server: one for each process that follows its streams.
	maxConnections = 256
	// maxFollows bounds the streams that one process follows at one owner; further ones are read from the database.
	maxFollows = 20_000
	// maxRequestBytes bounds a message of a follower.
	maxRequestBytes = 1 << 20
	// maxResponseBytes is enough for a frame and the largest event beside it.
	maxResponseBytes = 16 << 20
)

// Source has the streams that a process owns.
type Source interface {
	// Open returns a stream for another process to follow, nil if this process does not own it. moved is called whenever there may be more
	// to read, with locks held: it must not call the source.
	Open(process, stream string, moved func()) Stream
}

// Stream is an owned stream that another process follows.
type Stream interface {
	// Read returns what follows an index, in several pages if there is much. ok is false if the stream has another owner by now, or does
	// not have all of it in memory.
	Read(after int64) (p Page, ok bool)
	// Close ends the calls of moved.
	Close()
}

// Page is a piece of a stream.
type Page struct {
	Events []agent.Event
	Last   int64 // index of the stream's newest event, which may be behind those of this page
	Closed bool  // the newest event ends the stream
}

// Server sends the streams of a source to other processes.
type Server struct {
	listener net.Listener
	server   *grpc.Server
	token    string
	cert     []byte
}

// Serve listens on an address, host:port, and serves until [Server.Stop]. Port 0 is any free one.
func Serve(ctx context.Context, address string, source Source, logger *zap.Logger) (*Server, error) {
	certificate, err := newCertificate()
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, token: rand.Text(), cert: certificate.Certificate[0]}
	s.server = grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}})),
		grpc.WaitForHandlers(true), grpc.MaxConcurrentStreams(1), grpc.MaxRecvMsgSize(maxRequestBytes), grpc.ConnectionTimeout(connectPatience),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: time.Minute, Time: 10 * time.Second, Timeout: 5 * time.Second}),
	)
	relayv1.RegisterRelayServiceServer(s.server, &service{token: s.token, source: source})
	go func() {
		if err := s.server.Serve(netutil.LimitListener(listener, maxConnections)); err != nil {
			logger.Warn("relay of events ended; other processes read the database", zap.Error(err))
		}
	}()
	return s, nil
}

// Port returns the port that the server listens on.
func (s *Server) Port() int {
	address, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0
	}
	return address.Port
}

// Peer returns what others have to know to follow the streams of this process.
func (s *Server) Peer(process, address string) Peer {
	return Peer{Process: process, Address: address, Token: s.token, Certificate: s.cert}
}

// Stop ends all connections and waits for what serves them.
func (s *Server) Stop() { s.server.Stop() }

// service is the relay as gRPC sees it.
type service struct {
	relayv1.UnimplementedRelayServiceServer

	token  string
	source Source
}

// Follow serves one process until one of the two ends.
func (s *service) Follow(call relayv1.RelayService_FollowServer) error {
	process, err := authenticate(call.Context(), s.token)
	if err != nil {
		return err
	}
	if err := call.SendHeader(nil); err != nil { // by which the client knows that it may follow
		return err
	}
	f := newFollower(s.source, process)
	defer f.close()
	go f.receive(call)
	return f.send(call)
}
