// Package tracetest is an OTLP receiver for tests. It takes traces over HTTP and gRPC and prints them as trees.
package tracetest
