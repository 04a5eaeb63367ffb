package pgstream

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream/relay"
)

// Relay configures how a process sends the events of its streams to others.
type Relay struct {
	Address   string // host:port to listen on; default: any free port of the address from which this host reaches the database
	Advertise string // host or host:port at which others reach it; default: where it listens
}

const (
	// maxPeers bounds the processes whose streams are followed through the relay, as maxConnections of the relay does for its followers.
	maxPeers = 256
	// peersEvery is the interval at which a process renews its entry.
	peersEvery = 30 * time.Second
	// idlePeer is how long a connection stays without a stream that is followed.
	idlePeer = time.Minute
	// Bounds of the time after which a process is tried again that could not be reached.
	minRetry, maxRetry = 2 * time.Second, time.Minute
)

const (
	sqlStorePeer = `INSERT INTO stream_peers (owner, address, token, certificate) VALUES ($1, $2, $3, $4)
		ON CONFLICT (owner) DO UPDATE SET seen_at = clock_timestamp()`
	sqlPeer       = `SELECT address, token, certificate FROM stream_peers WHERE owner = $1`
	sqlForgetPeer = `DELETE FROM stream_peers WHERE owner = $1`
	sqlDeadPeers  = `DELETE FROM stream_peers WHERE seen_at < clock_timestamp() - interval '3 minutes' AND NOT turnstone_is_alive(owner)`
)

// peers are the connections to processes whose streams are followed here. A process is connected when a stream of it is first followed.
type peers struct {
	mu       sync.Mutex
	stopped  bool
	byName   map[string]*peer
	dialling sync.WaitGroup
}

// peer is another process, guarded by the mutex of peers.
type peer struct {
	name    string
	client  *relay.Client // nil if it is not connected
	busy    bool          // it is being dialled, or connected
	usedAt  time.Time     // when a stream of it was last begun to be followed
	retry   *backoff.ExponentialBackOff
	retryAt time.Time
}

// serveRelay serves the streams of this process to others. If no address is configured and none is free, the process works without a relay.
func (l *Log) serveRelay(ctx context.Context, cfg Relay) error {
	host, err := reachableHost(ctx, l.cfg.Pool.Config().ConnConfig)
	if err != nil && (cfg.Address == "" || cfg.Advertise == "") {
		return err
	}
	address := cfg.Address
	if address == "" {
		address = net.JoinHostPort(host, "0")
	}
	if l.server, err = relay.Serve(ctx, address, (*relaySource)(l), l.cfg.Logger); err != nil {
		if cfg.Address != "" {
			return err
		}
		l.cfg.Logger.Warn("no relay of events; processes read each other's streams from the database", zap.String("address", address), zap.Error(err))
		return nil
	}
	l.self = l.server.Peer(l.owner, advertisedAddress(cfg, host, l.server.Port()))
	if err := l.storePeer(ctx); err != nil {
		return err
	}
	l.workers.Go(func() { l.keepPeers(l.life) })
	return nil
}

// reachableHost returns the address of this host by which it reaches the database, and so by which others of the database's network reach it.
func reachableHost(ctx context.Context, to *pgx.ConnConfig) (string, error) {
	if to.Host == "" || to.Host[0] == '/' || to.Host[0] == '@' { // a socket of this host
		return "127.0.0.1", nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "udp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))) // sends nothing
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}

// advertisedAddress returns where others reach a process that listens on a port.
func advertisedAddress(cfg Relay, host string, port int) string {
	if _, _, err := net.SplitHostPort(cfg.Advertise); err == nil {
		return cfg.Advertise
	}
	if cfg.Advertise != "" {
		host = cfg.Advertise
	} else if named, _, err := net.SplitHostPort(cfg.Address); err == nil && named != "" && !net.ParseIP(named).IsUnspecified() {
		host = named
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// storePeer stores the address of this process for others.
func (l *Log) storePeer(ctx context.Context) error {
	_, err := l.exec(ctx, "keep the list of processes", sqlStorePeer, l.self.Process, l.self.Address, l.self.Token, l.self.Certificate)
	return err
}

// keepPeers renews the entry of this process and deletes those of dead ones, until ctx ends.
func (l *Log) keepPeers(ctx context.Context) {
	for pause(ctx, jitter(peersEvery)) {
		err := l.storePeer(ctx)
		if err == nil {
			_, err = l.exec(ctx, "keep the list of processes", sqlDeadPeers)
		}
		if err != nil && ctx.Err() == nil {
			l.cfg.Logger.Debug("keep the list of processes", zap.Error(err))
		}
		l.trimPeers(time.Now())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceTimeout)
	defer cancel()
	if _, err := l.exec(ctx, "keep the list of processes", sqlForgetPeer, l.owner); err != nil {
		l.cfg.Logger.Debug("leave the list of processes", zap.Error(err))
	}
}

// connected returns the connection to a process. If there is none it returns nil and dials in the background, unless that failed a moment ago.
func (l *Log) connected(name string) *relay.Client {
	l.peers.mu.Lock()
	defer l.peers.mu.Unlock()
	p, now := l.peers.byName[name], time.Now()
	switch {
	case p != nil && p.client != nil:
		p.usedAt = now
		return p.client
	case l.peers.stopped, p == nil && len(l.peers.byName) >= maxPeers, p != nil && (p.busy || now.Before(p.retryAt)):
		return nil
	case p == nil:
		p = &peer{name: name, retry: backoff.NewExponentialBackOff()}
		p.retry.InitialInterval, p.retry.MaxInterval = minRetry, maxRetry
		l.peers.byName[name] = p
	}
	p.busy, p.usedAt = true, now
	l.peers.dialling.Go(func() { l.connect(p) })
	return nil
}

// connect connects a process for as long as the connection holds.
func (l *Log) connect(p *peer) {
	client, err := l.dial(p.name)
	if err == nil {
		l.peers.set(p, client, 0)
		l.cfg.Watch.Peers(1)
		err = client.Run(l.mirrorPiece)
		l.cfg.Watch.Peers(-1)
		p.retry.Reset()
	}
	l.peers.set(p, nil, p.retry.NextBackOff())
	if client != nil {
		l.dropMirrorsOf(client)
	}
	if l.life.Err() == nil {
		l.cfg.Logger.Info("not connected with another process; its streams are read from the database", zap.String("process", p.name), zap.Error(err))
	}
}

func (p *peers) set(of *peer, client *relay.Client, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of.client, of.busy, of.retryAt = client, client != nil, time.Now().Add(pause)
}

func (l *Log) dial(name string) (*relay.Client, error) {
	to := relay.Peer{Process: name}
	err := l.call(l.life, "find a process", sqlPeer, []any{name}, &to.Address, &to.Token, &to.Certificate)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, agent.Errorf(agent.CodeNotFound, "find a process", "it has no relay")
	}
	if err != nil {
		return nil, err
	}
	return relay.Dial(l.life, l.owner, to)
}

// stop ends all connections.
func (p *peers) stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.dialling.Wait()
}

// trimPeers forgets processes that have probably ended, and disconnects those whose streams have no follower here.
func (l *Log) trimPeers(now time.Time) {
	l.peers.mu.Lock()
	defer l.peers.mu.Unlock()
	for name, p := range l.peers.byName {
		switch {
		case !p.busy && now.Sub(p.retryAt) > maxRetry:
			delete(l.peers.byName, name)
		case p.client != nil && now.Sub(p.usedAt) > idlePeer && !l.mirrors.isUsed(p.client):
			p.client.Close()
		}
	}
}
