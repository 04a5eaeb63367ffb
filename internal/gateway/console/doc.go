// Package console is the browser console: embedded static files that call the gateway's REST API as any other client does. The files contain no data
// and need no credential. The page loads data with the user's credential.
package console
