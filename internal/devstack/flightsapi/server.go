package flightsapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server is the API on a TCP port.
type Server struct {
	url   string
	http  *http.Server
	ended chan error
}

// Start serves the API on addr, such as "127.0.0.1:0" for any free port, until Stop.
func Start(ctx context.Context, addr string) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("sample flights API: %w", err)
	}
	s := &Server{
		url: "http://" + listener.Addr().String(),
		http: &http.Server{
			Handler:           New(),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			WriteTimeout:      10 * time.Second,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    16 << 10,
		},
		ended: make(chan error, 1),
	}
	go func() { s.ended <- s.http.Serve(listener) }()
	return s, nil
}

// URL is the base address, without a slash at the end.
func (s *Server) URL() string { return s.url }

// Stop lets requests under way finish until ctx ends, then cuts them. Stopping again does nothing.
func (s *Server) Stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	select {
	case ended := <-s.ended:
		if !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		s.ended <- http.ErrServerClosed // for a second Stop
	case <-ctx.Done():
	}
	return err
}
