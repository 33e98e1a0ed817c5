// HTTPS of Go's net/http and crypto/tls: HTTP/1.1 and HTTP/2.
//
// Answers /w?think=MS&head=BYTES&writes=STEP,... as README.md says, /bytes/N, and / with 2,000 bytes.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var stepForm = regexp.MustCompile(`^(\d+)(?:@(\d+(?:\.\d+)?))?(?:x(\d+))?$`)
var line = "The quick brown fox jumps over the lazy dog.\n"

type step struct {
	size  int
	waits bool
	wait  time.Duration
}

func milliseconds(text string) time.Duration {
	number, _ := strconv.ParseFloat(text, 64)
	return time.Duration(number * float64(time.Millisecond))
}

func steps(text string) ([]step, error) {
	var all []step
	for _, part := range strings.Split(text, ",") {
		found := stepForm.FindStringSubmatch(part)
		if found == nil {
			return nil, fmt.Errorf("not a step: %q", part)
		}
		size, _ := strconv.Atoi(found[1])
		times, err := strconv.Atoi(found[3])
		if err != nil {
			times = 1
		}
		for ; times > 0; times-- {
			all = append(all, step{size, found[2] != "", milliseconds(found[2])})
		}
	}
	return all, nil
}

func body(size int) []byte {
	return []byte(strings.Repeat(line, size/len(line)+1)[:size])
}

func answer(writer http.ResponseWriter, request *http.Request) {
	query := request.URL.Query()
	text := query.Get("writes")
	switch path := request.URL.Path; {
	case path == "/":
		text = "2000"
	case strings.HasPrefix(path, "/bytes/"):
		text = strings.TrimPrefix(path, "/bytes/")
	case path != "/w":
		http.NotFound(writer, request)
		return
	case text == "":
		text = "2000"
	}
	todo, err := steps(text)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(milliseconds(query.Get("think")))
	length := 0
	for _, one := range todo {
		length += one.size
	}
	head := writer.Header()
	head.Set("Content-Type", "text/plain")
	head.Set("Content-Length", strconv.Itoa(length))
	// What the lines above and the date take over HTTP/1.1.
	const shortest = 117
	if size, _ := strconv.Atoi(query.Get("head")); size > shortest+len("X-Padding: \r\n") {
		head.Set("X-Padding", strings.Repeat("X", size-shortest-len("X-Padding: \r\n")))
	}
	writer.WriteHeader(http.StatusOK)
	flusher := writer.(http.Flusher)
	if todo[0].waits {
		flusher.Flush()
	}
	for _, one := range todo {
		time.Sleep(one.wait)
		writer.Write(body(one.size))
		flusher.Flush()
	}
}

// Connections on which small writes wait for acknowledgements: Go sets TCP_NODELAY by itself.
type nagling struct{ net.Listener }

func (listener nagling) Accept() (net.Conn, error) {
	connection, err := listener.Listener.Accept()
	if err == nil {
		err = connection.(*net.TCPConn).SetNoDelay(false)
	}
	return connection, err
}

func main() {
	least := flag.String("least", "1.2", "oldest version of TLS")
	most := flag.String("most", "1.3", "newest version of TLS")
	sessions := flag.Bool("sessions", true, "whether sessions are resumed")
	nagle := flag.Bool("nagle", false, "whether small writes wait for acknowledgements")
	delay := flag.Float64("handshake-delay", 0, "milliseconds between ClientHello and ServerHello")
	http2 := flag.Bool("http2", true, "whether HTTP/2 is spoken")
	flag.Parse()
	versions := map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}
	certificate, err := tls.LoadX509KeyPair(flag.Arg(0), flag.Arg(1))
	if err != nil {
		log.Fatal(err)
	}
	config := &tls.Config{
		Certificates:           []tls.Certificate{certificate},
		MinVersion:             versions[*least],
		MaxVersion:             versions[*most],
		SessionTicketsDisabled: !*sessions,
	}
	if *delay > 0 {
		pause := time.Duration(*delay * float64(time.Millisecond))
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			time.Sleep(pause)
			return nil, nil
		}
	}
	server := &http.Server{Handler: http.HandlerFunc(answer), TLSConfig: config}
	if !*http2 {
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	listener, err := net.Listen("tcp", ":443")
	if err != nil {
		log.Fatal(err)
	}
	if *nagle {
		listener = nagling{listener}
	}
	log.Fatal(server.ServeTLS(listener, "", ""))
}
