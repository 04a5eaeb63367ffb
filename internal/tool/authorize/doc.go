// Package authorize puts the credentials of auth profiles into requests that tools make ([tool.Auth]).
//
// A profile is sent only to the hosts that it names; one without hosts is never sent. The first profile that fits is used. What it adds
// replaces a header or parameter of that name, which a model may have written. It goes over https only, except to this machine, and
// except if a rule of the profile names the port: whoever writes internal.example:8080 knows what listens there. Package [egress] is told
// which headers and parameters are credentials, and protects them on redirects.
//
// Secrets are read for each request, so a new one is used from the next request on. Access tokens (OAuth 2.0 client credentials) are
// cached until shortly before they expire, an hour at most, and fetched once for all requests that wait for one.
//
// Errors name the profile. They never name a secret, its place, or what a token endpoint has answered.
package authorize
