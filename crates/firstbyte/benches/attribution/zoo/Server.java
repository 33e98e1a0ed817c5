import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsParameters;
import com.sun.net.httpserver.HttpsServer;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyManagementException;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.SecureRandom;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLContextSpi;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLServerSocketFactory;
import javax.net.ssl.SSLSessionContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManager;

/**
 * HTTPS of the JDK: com.sun.net.httpserver.HttpsServer, HTTP/1.1.
 *
 * Answers /w?think=MS&head=BYTES&writes=STEP,... as README.md says, /bytes/N, and / with 2,000 bytes.
 * Arguments: chain, key (both PEM), sessions or no-sessions, versions of TLS.
 */
public class Server {
    private static final Pattern STEP = Pattern.compile("(\\d+)(?:@(\\d+(?:\\.\\d+)?))?(?:x(\\d+))?");
    private static final byte[] LINE =
            "The quick brown fox jumps over the lazy dog.\n".getBytes(StandardCharsets.US_ASCII);

    private record Step(int size, double waitMs) {}

    public static void main(String[] arguments) throws Exception {
        KeyManager[] keys = keys(Path.of(arguments[0]), Path.of(arguments[1]));
        boolean sessions = arguments[2].equals("sessions");
        String[] protocols = new String[arguments.length - 3];
        for (int i = 0; i < protocols.length; i++) {
            protocols[i] = "TLSv" + arguments[i + 3];
        }
        HttpsServer server = HttpsServer.create(new InetSocketAddress(443), 128);
        SSLContext context = sessions ? context(keys) : new Forgetful(keys);
        server.setHttpsConfigurator(new HttpsConfigurator(context) {
            @Override
            public void configure(HttpsParameters parameters) {
                SSLParameters tls = getSSLContext().getDefaultSSLParameters();
                tls.setProtocols(protocols);
                parameters.setSSLParameters(tls);
            }
        });
        server.createContext("/", Server::answer);
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
    }

    private static void answer(HttpExchange exchange) throws IOException {
        String path = exchange.getRequestURI().getPath();
        String writes = path.equals("/") ? "2000" : "";
        double think = 0;
        int head = 0;
        if (path.startsWith("/bytes/")) {
            writes = path.substring("/bytes/".length());
        } else if (path.equals("/w")) {
            writes = "2000";
            String query = exchange.getRequestURI().getRawQuery();
            for (String pair : query == null ? new String[0] : query.split("&")) {
                String[] parts = pair.split("=", 2);
                String value = URLDecoder.decode(parts[1], StandardCharsets.US_ASCII);
                switch (parts[0]) {
                    case "think" -> think = Double.parseDouble(value);
                    case "head" -> head = Integer.parseInt(value);
                    case "writes" -> writes = value;
                    default -> throw new IOException("unknown: " + parts[0]);
                }
            }
        }
        if (writes.isEmpty()) {
            exchange.sendResponseHeaders(404, -1);
            exchange.close();
            return;
        }
        List<Step> steps = steps(writes);
        long length = steps.stream().mapToLong(Step::size).sum();
        pause(think);
        exchange.getResponseHeaders().set("Content-Type", "text/plain");
        // What the other lines take: status, date, type and length.
        int missing = head - 106 - "X-padding: \r\n".length();
        if (missing > 0) {
            exchange.getResponseHeaders().set("X-padding", "X".repeat(missing));
        }
        exchange.sendResponseHeaders(200, length == 0 ? -1 : length);
        try (OutputStream body = exchange.getResponseBody()) {
            for (Step step : steps) {
                pause(step.waitMs);
                if (step.size > 0) {
                    body.write(text(step.size));
                    body.flush();
                }
            }
        }
    }

    private static List<Step> steps(String text) throws IOException {
        List<Step> steps = new ArrayList<>();
        for (String part : text.split(",")) {
            Matcher found = STEP.matcher(part);
            if (!found.matches()) {
                throw new IOException("not a step: " + part);
            }
            double wait = found.group(2) == null ? 0 : Double.parseDouble(found.group(2));
            int times = found.group(3) == null ? 1 : Integer.parseInt(found.group(3));
            for (int i = 0; i < times; i++) {
                steps.add(new Step(Integer.parseInt(found.group(1)), wait));
            }
        }
        return steps;
    }

    private static void pause(double milliseconds) {
        long due = System.nanoTime() + (long) (milliseconds * 1e6);
        for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    private static byte[] text(int size) {
        byte[] text = new byte[size];
        for (int i = 0; i < size; i++) {
            text[i] = LINE[i % LINE.length];
        }
        return text;
    }

    private static KeyManager[] keys(Path chain, Path key) throws Exception {
        Certificate[] certificates;
        try (FileInputStream file = new FileInputStream(chain.toFile())) {
            certificates = CertificateFactory.getInstance("X.509")
                    .generateCertificates(file)
                    .toArray(new Certificate[0]);
        }
        String pem = Files.readString(key).replaceAll("-----[A-Z ]*-----", "").replaceAll("\\s", "");
        PKCS8EncodedKeySpec encoded = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem));
        String algorithm = certificates[0].getPublicKey().getAlgorithm();
        PrivateKey secret = KeyFactory.getInstance(algorithm).generatePrivate(encoded);
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        store.setKeyEntry("server", secret, new char[0], certificates);
        KeyManagerFactory factory = KeyManagerFactory.getInstance("PKIX");
        factory.init(store, new char[0]);
        return factory.getKeyManagers();
    }

    private static SSLContext context(KeyManager[] keys) {
        try {
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(keys, null, null);
            return context;
        } catch (java.security.GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    /** A context that remembers no session: every connection has a new one behind it. */
    private static final class Forgetful extends SSLContext {
        Forgetful(KeyManager[] keys) {
            super(new Behind(keys), context(keys).getProvider(), "TLS");
        }
    }

    private static final class Behind extends SSLContextSpi {
        private final KeyManager[] keys;

        Behind(KeyManager[] keys) {
            this.keys = keys;
        }

        @Override
        protected void engineInit(KeyManager[] k, TrustManager[] t, SecureRandom r)
                throws KeyManagementException {
            throw new KeyManagementException("it has its keys");
        }

        @Override
        protected SSLSocketFactory engineGetSocketFactory() {
            return context(keys).getSocketFactory();
        }

        @Override
        protected SSLServerSocketFactory engineGetServerSocketFactory() {
            return context(keys).getServerSocketFactory();
        }

        @Override
        protected SSLEngine engineCreateSSLEngine() {
            return context(keys).createSSLEngine();
        }

        @Override
        protected SSLEngine engineCreateSSLEngine(String host, int port) {
            return context(keys).createSSLEngine(host, port);
        }

        @Override
        protected SSLSessionContext engineGetServerSessionContext() {
            return context(keys).getServerSessionContext();
        }

        @Override
        protected SSLSessionContext engineGetClientSessionContext() {
            return context(keys).getClientSessionContext();
        }
    }
}
