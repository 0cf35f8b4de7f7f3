import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.concurrent.atomic.AtomicLong;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.alpn.server.ALPNServerConnectionFactory;
import org.eclipse.jetty.http2.server.HTTP2CServerConnectionFactory;
import org.eclipse.jetty.http2.server.HTTP2ServerConnectionFactory;
import org.eclipse.jetty.server.ConnectionFactory;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.SslConnectionFactory;
import org.eclipse.jetty.server.handler.AbstractHandler;
import org.eclipse.jetty.util.ssl.SslContextFactory;

/**
 * A server that speaks HTTP/1.1 and HTTP/2, without TLS on one port and with it on another.
 * It answers /answered with the number of other requests that it has answered.
 *
 * Arguments: the port without TLS, the port with it, and PEM files of the certificate and of
 * its RSA key (PKCS #8).
 */
public class Jetty {
    public static void main(String[] args) throws Exception {
        HttpConfiguration config = new HttpConfiguration();
        HttpConnectionFactory http1 = new HttpConnectionFactory(config);
        ALPNServerConnectionFactory alpn = new ALPNServerConnectionFactory();
        alpn.setDefaultProtocol(http1.getProtocol());
        SslContextFactory.Server tls = new SslContextFactory.Server();
        tls.setKeyStore(keys(args[2], args[3]));
        tls.setKeyStorePassword("");

        Server server = new Server();
        listen(server, args[0], http1, new HTTP2CServerConnectionFactory(config));
        listen(server, args[1], new SslConnectionFactory(tls, alpn.getProtocol()), alpn, new HTTP2ServerConnectionFactory(config), http1);
        server.setHandler(new Answer());
        server.start();
        server.join();
    }

    static void listen(Server server, String port, ConnectionFactory... factories) {
        ServerConnector connector = new ServerConnector(server, factories);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(port));
        server.addConnector(connector);
    }

    static KeyStore keys(String certificate, String key) throws Exception {
        Certificate signed;
        try (var file = Files.newInputStream(Path.of(certificate))) {
            signed = CertificateFactory.getInstance("X.509").generateCertificate(file);
        }
        String base64 = Files.readString(Path.of(key)).replaceAll("-----[A-Z ]+-----", "");
        byte[] der = Base64.getMimeDecoder().decode(base64);
        KeyStore keys = KeyStore.getInstance("PKCS12");
        keys.load(null, null);
        keys.setKeyEntry("server", KeyFactory.getInstance("RSA").generatePrivate(new PKCS8EncodedKeySpec(der)),
            new char[0], new Certificate[] {signed});
        return keys;
    }

    static class Answer extends AbstractHandler {
        private final AtomicLong answered = new AtomicLong();

        @Override
        public void handle(String target, Request request, HttpServletRequest wrapped, HttpServletResponse response) throws IOException {
            request.setHandled(true);
            if (target.equals("/answered")) {
                response.getOutputStream().print(answered.get());
                return;
            }
            answered.incrementAndGet();
            response.getOutputStream().print("ok");
        }
    }
}
