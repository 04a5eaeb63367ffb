// Package console is the browser console: static files, embedded, that call the gateway's REST API as any other client does. The pages
// hold no data and need no credential; what they show comes with the credential of whoever looks.
package console
